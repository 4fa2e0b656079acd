"""What the parked commands share: their filters, and the way to the queue."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, NoReturn, TypeVar

import typer

from consumer.cli.shared.complete import subscription_ids, tenant_names
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.link import find_broker
from consumer.cli.shared.output import warn
from consumer.core.errors import LeveretError
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.parked_filter import Filter
from consumer.core.model import ParkReason
from consumer.core.text.durations import parse_moment
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.parked import Unreadable, browse
from consumer.edges.store import opened_store
from consumer.settings import Settings
from topology.names import Names

_T = TypeVar("_T")

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of entries, prk_...")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", autocompletion=tenant_names)]
Type = Annotated[str | None, typer.Option("--type", help="Only of event types that fit, such as order.*")]
Reason = Annotated[ParkReason | None, typer.Option(help="Only with this reason.")]
SubscriptionId = Annotated[
    str | None,
    typer.Option("--subscription", help="Only of this subscription id.", autocompletion=subscription_ids),
]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only what was parked since: 2h, 7d or an RFC 3339 time.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most this many, the oldest first.")]
Everything = Annotated[bool, typer.Option("--all", help="All entries that the filters leave.")]


def moment(text: str | None) -> float | None:
    """Return when *text* says, in Unix seconds.

    Raises:
        ConfigError: it is neither a time nor a duration.
    """
    return None if text is None else parse_moment(text, time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The filters that a look and a replay share."""

    tenant: Tenant = None
    kind: Type = None
    reason: Reason = None
    subscription: SubscriptionId = None
    since: Since = None

    def filter(self, ids: Collection[str] = ()) -> Filter:
        """Return which entries are meant, of *ids* if there are any.

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


def look(settings: Settings, chosen: Filter, take: Callable[[ParkedEntry], bool]) -> None:
    """Hand every chosen entry to *take*, oldest first, until it says that it has enough.

    What cannot be read is told in one line on stderr.

    Raises:
        BrokerUnavailable: the broker or the queue is not there.
    """
    unreadable: list[Unreadable] = []

    async def run() -> None:
        connection = await connect(find_broker(settings).options, "parked")
        try:
            async with aclosing(browse(connection, Names(settings.topology.prefix), unreadable)) as entries:
                async for entry in entries:
                    if chosen(entry) and not take(entry):
                        return
        finally:
            await close_quietly(connection)

    run_to_the_end(run())
    if unreadable:
        remedy = "a newer release can, or look with the management page"
        warn(f"{len(unreadable)} parked messages cannot be read ({unreadable[0].why}) and stay; {remedy}")


def drain(
    settings: Settings, step: Callable[..., AsyncGenerator[_T, None]], take: Callable[[_T], None]
) -> None:
    """Run *step* over a connection of its own and hand what it yields to *take* as it goes.

    So what was done is known when the broker fails in the middle. What left the queue leaves the index too.

    Raises:
        BrokerUnavailable: of *step*.
        KeyboardInterrupt: it was interrupted; what was under way is done, the rest stays parked.
    """
    gone: dict[str, float] = {}

    async def run() -> None:
        connection = await connect(find_broker(settings).options, "parked")
        try:
            async with aclosing(step(connection, Names(settings.topology.prefix))) as done:
                async for one in done:
                    take(one)
                    if isinstance(one, ParkedEntry):
                        gone[one.id] = one.parked_at
        finally:
            await close_quietly(connection)
            await _forget(settings, gone)

    run_to_the_end(run())


def interrupted() -> NoReturn:
    """End after an interruption, once what was done is shown."""
    warn("interrupted; what is not listed stays parked")
    raise typer.Exit(130)


async def _forget(settings: Settings, gone: Mapping[str, float]) -> None:
    """Keep the index of parked entries up to date; a store that is away forgets them in time by itself."""
    async with opened_store(settings) as store:
        with suppress(LeveretError):
            await store.forget_parked(gone)
