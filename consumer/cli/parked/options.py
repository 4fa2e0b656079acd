"""Declare the arguments and options that parked commands share, and make the filter of them."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.core.message.parked_filter import Filter
from consumer.core.model import ParkReason
from consumer.core.text.durations import parse_moment

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of entries, prk_...")]
Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.", autocompletion=tenant_names)]
Type = Annotated[str | None, typer.Option("--type", help="Only of matching event types, such as order.*")]
Reason = Annotated[ParkReason | None, typer.Option(help="Only with this reason.")]
SubscriptionId = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        help="Only of this subscription: tenant/name or its id.",
        autocompletion=subscription_names,
    ),
]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only entries parked since: 2h, 7d or an RFC 3339 time.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most this many, the oldest first.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for a command that has the entries in hand.")]
Everything = Annotated[bool, typer.Option("--all", help="All entries that pass the filters.")]


def moment(text: str | None) -> float | None:
    """Return the time that *text* means, in Unix seconds.

    Raises:
        ConfigError: *text* is neither a time nor a duration.
    """
    return None if text is None else parse_moment(text, time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The filters that listing and replay share."""

    tenant: Tenant = None
    kind: Type = None
    reason: Reason = None
    subscription: SubscriptionId = None
    since: Since = None

    def filter(self, ids: Collection[str] = ()) -> Filter:
        """Return the filter of the chosen entries; *ids* narrow it if there are any.

        Raises:
            ConfigError: ``since`` is neither a time nor a duration.
        """
        return Filter(
            ids=frozenset(ids) or None,
            tenant=self.tenant,
            type=self.kind,
            reason=self.reason,
            subscription=self.subscription,
            since=moment(self.since),
        )
