"""Filter the parked queue and read it, for all parked commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from typing import Annotated, NoReturn, TypeVar

import typer

from consumer.cli.shared.audit import write_line
from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.output import warn
from consumer.cli.shared.progress import Progress
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.parked_filter import Filter
from consumer.core.model import ParkReason
from consumer.core.store.audit import Change
from consumer.core.text.durations import parse_moment
from consumer.core.text.printable import printable
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked import Unreadable, browse
from consumer.edges.operate.parked_drain import ParkedPlace, Pass
from consumer.edges.operate.parked_drain import drain as drained
from consumer.edges.operate.parked_lock import Turn
from consumer.edges.store import opened_store
from consumer.settings import Settings
from topology.names import Names

_T = TypeVar("_T")
Audited = Callable[[], Change | None]

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


def turn_of(command: str, *, wait: bool) -> Turn:
    """Return how ``leveret parked`` *command* asks for the entries."""

    def told(line: str) -> None:
        typer.echo(f"leveret: {printable(line)}", err=True)

    return Turn(
        command=f"leveret parked {command}",
        wait_s=inf if wait else 0.0,
        on_wait=told,
        on_read=Progress().read,
    )


def for_each_entry(
    settings: Settings, turn: Turn, chosen: Filter, take: Callable[[ParkedEntry], bool]
) -> None:
    """Pass every chosen entry to *take*, oldest first, until it returns false.

    One warning on stderr counts the unreadable messages.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away or the queue does not exist.
    """
    unreadable: list[Unreadable] = []

    async def run() -> None:
        connection = await connect(find_broker(settings).options, "parked")
        try:
            names = Names(settings.topology.prefix)
            async with aclosing(browse(connection, names, turn, unreadable)) as entries:
                async for entry in entries:
                    if chosen(entry) and not take(entry):
                        return
        finally:
            await close_quietly(connection)

    run_to_the_end(run())
    if unreadable:
        remedy = "read them with a newer release or on the management page"
        warn(f"{len(unreadable)} parked messages cannot be read ({unreadable[0].why}) and stay; {remedy}")


def drain(settings: Settings, step: Pass[_T], take: Callable[[_T], None], audited: Audited) -> None:
    """Run *step* over its own connection, pass each result to *take* at once, and write the audit log.

    So the finished part is known if the broker fails midway. Entries that left the queue leave the index too.

    Args:
        settings: Names broker and store.
        step: The pass.
        take: Receives each result.
        audited: Returns the line of the audit log once the pass has ended; None: nothing was changed.

    Raises:
        BrokerUnavailable: from *step*.
        KeyboardInterrupt: a signal came; the entry in progress is finished, the rest stays parked.
    """

    async def run() -> None:
        async with opened_store(settings) as store:
            names = Names(settings.topology.prefix)
            place = ParkedPlace(options=find_broker(settings).options, names=names, store=store)
            try:
                await drained(place, step, take)
            finally:
                await write_line(store, audited())

    run_to_the_end(run())


def interrupted() -> NoReturn:
    """Exit after an interruption, once the finished part is shown."""
    warn("interrupted; all entries that are not listed stay parked")
    raise typer.Exit(130)
