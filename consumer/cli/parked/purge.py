"""``leveret parked purge``: move old entries from the queue into an archive file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.parked.drain import drain
from consumer.cli.parked.index import resolved
from consumer.cli.parked.options import Reason, Tenant, Type, Wait
from consumer.cli.parked.shared import for_each_entry, interrupted, turn_of
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, demand_terminal, errors_in_one_line, fail, print_rows
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.audited import parked_change
from consumer.core.text.durations import parse_duration
from consumer.edges.operate.parked.lock import Turn
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
        settings = load_settings()
        chosen = resolved(settings, options.filter())
        turn = turn_of("purge", wait=options.wait)
        if not options.yes and not _agreed(settings, turn, chosen):
            typer.echo("nothing was purged", err=True)
            raise typer.Exit(1)
        rows: list[Mapping[str, object]] = []
        broken, was_interrupted = None, False
        try:
            broken = _purge(settings, turn, chosen, rows)
        except KeyboardInterrupt:
            was_interrupted = True
    print_rows(
        ("id", "parked_at", "tenant", "type", "reason"),
        rows,
        as_json=options.as_json,
        empty="nothing was purged",
    )
    if rows and not options.as_json:
        typer.echo(f"{len(rows)} purged; they are in {settings.home / 'archive'}")
    if was_interrupted:
        interrupted()
    if broken is not None:
        fail(broken)


def _agreed(settings: Settings, turn: Turn, chosen: Filter) -> bool:
    """Count the chosen entries and ask.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    demand_terminal()
    count = 0

    def take(_: ParkedEntry) -> bool:
        nonlocal count
        count += 1
        return True

    for_each_entry(settings, turn, chosen, take)
    return count > 0 and typer.confirm(f"Purge {count} parked entries?", err=True)


def _purge(settings: Settings, turn: Turn, chosen: Filter, rows: list[Mapping[str, object]]) -> str | None:
    """Purge, and add each purged entry to *rows*; return the error text when the broker or the disk fails."""
    archive = FileArchive(settings.home / "archive", SystemClock(), "purged")
    try:
        drain(
            settings,
            lambda connection, names: purge(connection, names, turn, chosen, archive),
            lambda entry: rows.append(entry_as_dict(entry)),
            lambda: parked_change("purged", chosen, len(rows)),
        )
    except BrokerUnavailable as error:
        return str(error)
    except OSError as error:
        return f"{settings.home / 'archive'}: {error.strerror or error}; unarchived entries stay parked"
    return None
