"""The filters that ``leveret trace`` and ``leveret tail`` share."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.output import warn
from consumer.cli.values.traces import Filters
from consumer.core.errors import ConfigError
from consumer.core.subscription.subscription import id_of
from consumer.core.text.durations import parse_moment
from consumer.edges.store import StoreLookup
from consumer.settings import Settings

_DELIVERY_ID = re.compile(r"dlv_[0-9a-f]{16}")

Delivery = Annotated[str | None, typer.Option(metavar="ID", help="Only the delivery with this id, dlv_...")]
Which = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        help="Only of this subscription: tenant/name or id.",
        autocompletion=subscription_names,
    ),
]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.", autocompletion=tenant_names)]
Failed = Annotated[bool, typer.Option("--failed", help="Only failed attempts and parked deliveries.")]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only since then: 1h, 7d or an RFC 3339 time.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtering:
    """The options of the filters."""

    delivery: Delivery = None
    subscription: Which = None
    tenant: Tenant = None
    failed: Failed = False
    since: Since = None

    def filters(self) -> Filters:
        """Check the options.

        Raises:
            ConfigError: a time or an id is not valid.
        """
        if self.delivery is not None and not _DELIVERY_ID.fullmatch(self.delivery):
            raise ConfigError(f"{self.delivery!r} is not the id of a delivery; it is dlv_ and 16 hex digits")
        return Filters(
            self.delivery or "",
            "" if self.subscription is None else id_of(self.subscription),
            self.tenant or "",
            self.failed,
            0.0 if self.since is None else parse_moment(self.since, time.time()),
            self.subscription or "",
        )


async def demand_subscription(lookup: StoreLookup, named: str) -> None:
    """Refuse the name of a subscription that neither the store nor the history knows; empty passes.

    Raises:
        ConfigError: there is no such subscription.
        StoreUnavailable: the store cannot be read.
    """
    if named and await lookup.subscription(id_of(named)) is None:
        raise ConfigError(
            f"no subscription {named!r}, and no history of one; see `leveret subscriptions list`"
        )


def warn_if_off(settings: Settings) -> None:
    """Warn that these settings keep no history, or only a part of it."""
    keep = settings.history.keep
    if keep == "off":
        warn("[history] keep is off: no steps are recorded")
    elif keep == "failures":
        warn("[history] keep is failures: deliveries that succeeded at once are not recorded")
