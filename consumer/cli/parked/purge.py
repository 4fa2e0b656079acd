"""``leveret parked purge``: move old entries from the queue into an archive file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

import typer

from consumer.cli.parked.drain import drain
from consumer.cli.parked.index import resolved
from consumer.cli.parked.options import Reason, Tenant, Type, Wait
from consumer.cli.parked.shared import for_each_entry, interrupted, turn_of
from consumer.cli.remote.choice import chosen as chosen_server
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, demand_terminal, errors_in_one_line, fail, print_rows
from consumer.cli.values.parked import STAYS, Purged
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.audited import parked_change
from consumer.core.text.durations import parse_duration
from consumer.edges.operate.parked.queue import purge
from consumer.edges.process.system import FileArchive, SystemClock
from consumer.settings import Settings, load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """The command line of ``leveret parked purge``."""

    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Only entries parked longer ago than this: 7d, 12h; 0s is all."),
    ]
    tenant: Tenant = None
    kind: Type = None
    reason: Reason = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False
    wait: Wait = False
    as_json: AsJson = False

    def filter(self) -> Filter:
        """Return the filter of the entries to purge.

        Raises:
            ConfigError: ``older_than`` is not a valid duration.
        """
        until = time.time() - parse_duration(self.older_than)
        return Filter(tenant=self.tenant, type=self.kind, reason=self.reason, until=until)


class Purges(Protocol):
    """Parked entries that can be purged: in the queue, or behind an API."""

    def resolved(self, wanted: Filter) -> Filter:
        """Return *wanted* with the id of its subscription.

        Raises:
            LeveretError: the tenant or the subscription is unknown.
        """

    def count(self, chosen: Filter, *, wait: bool) -> int:
        """Return the number of entries."""

    def purge(self, chosen: Filter, *, wait: bool) -> Purged:
        """Archive entries and take them out of the queue.

        Raises:
            LeveretError: a command has the entries in hand; nothing was purged.
        """


class QueuePurges:
    """The entries in the parked queue."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def resolved(self, wanted: Filter) -> Filter:
        """See :class:`Purges`."""
        return resolved(self._settings, wanted)

    def count(self, chosen: Filter, *, wait: bool) -> int:
        """See :class:`Purges`."""
        count = 0

        def take(_: ParkedEntry) -> bool:
            nonlocal count
            count += 1
            return True

        for_each_entry(self._settings, turn_of("purge", wait=wait), chosen, take)
        return count

    def purge(self, chosen: Filter, *, wait: bool) -> Purged:
        """See :class:`Purges`."""
        where = self._settings.home / "archive"
        archive, turn = FileArchive(where, SystemClock(), "purged"), turn_of("purge", wait=wait)
        rows: list[Mapping[str, object]] = []
        broken, left = None, ""
        try:
            drain(
                self._settings,
                lambda connection, names: purge(connection, names, turn, chosen, archive),
                lambda entry: rows.append(entry_as_dict(entry)),
                lambda: parked_change("purged", chosen, len(rows)),
            )
        except BrokerUnavailable as error:
            broken = str(error)
        except OSError as error:
            broken = f"{where}: {error.strerror or error}; unarchived entries stay parked"
        except KeyboardInterrupt:
            left = STAYS
        return Purged(rows=rows, archive=str(where), broken=broken, interrupted=left)


def _purges() -> Purges:
    client = chosen_server()
    if client is None:
        return QueuePurges(load_settings())
    from consumer.cli.remote.parked import RemoteParked  # noqa: PLC0415 (imports an HTTP client)

    return RemoteParked(client)


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "purge",
        epilog=examples(
            "leveret parked purge --older-than 7d", "leveret parked purge --older-than 1h --tenant acme --yes"
        ),
    )(takes(Purge)(purge_))


def purge_(options: Purge) -> None:
    """Move old entries out of the queue. Each is written to LEVERET_HOME/archive first, body included.

    Asks before it begins; without a terminal it needs --yes.
    """
    with errors_in_one_line():
        source = _purges()
        chosen = source.resolved(options.filter())
        if not options.yes and not _agreed(source, chosen, wait=options.wait):
            typer.echo("nothing was purged", err=True)
            raise typer.Exit(1)
        done = source.purge(chosen, wait=options.wait)
    print_rows(
        ("id", "parked_at", "tenant", "type", "reason"),
        done.rows,
        as_json=options.as_json,
        empty="nothing was purged",
    )
    if done.rows and not options.as_json:
        typer.echo(f"{len(done.rows)} purged; they are in {done.archive}")
    if done.interrupted:
        interrupted(done.interrupted)
    if done.broken is not None:
        fail(done.broken)


def _agreed(source: Purges, chosen: Filter, *, wait: bool) -> bool:
    """Count the chosen entries and ask.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    demand_terminal()
    count = source.count(chosen, wait=wait)
    return count > 0 and typer.confirm(f"Purge {count} parked entries?", err=True)
