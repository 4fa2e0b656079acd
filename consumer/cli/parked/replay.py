"""``leveret parked replay``: send entries again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.parked.index import parked_index
from consumer.cli.parked.options import Chosen, Everything, Ids, Wait
from consumer.cli.parked.replay_source import COLUMNS, Replays, follow, replays
from consumer.cli.parked.shared import interrupted
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_rows, warn
from consumer.cli.values.parked import Replayed
from consumer.core.message.parked_filter import GroupBy, grouped
from consumer.core.message.records import row_as_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Chosen):
    """The command line of ``leveret parked replay``."""

    ids: Ids = None
    everything: Everything = False
    wait: Wait = False
    as_job: Annotated[
        bool, typer.Option("--job", help="Let a worker do it, as a job that outlives this command.")
    ] = False
    rate: Annotated[
        float | None,
        typer.Option(min=0.01, max=100_000, metavar="N", help="As a job: this many entries a second."),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SUBSCRIPTION",
            help="As a job: to this subscription of the same tenant instead: tenant/name, id, or its URL.",
        ),
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Print the progress of the job until it ends or pauses.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the entries by subscription and reason; send nothing.")
    ] = False
    as_json: AsJson = False

    @property
    def is_job(self) -> bool:
        """Whether a worker does it."""
        return self.as_job or self.follow or self.rate is not None or self.to is not None


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "replay",
        epilog=examples(
            "leveret parked replay prk_0123456789abcdef",
            "leveret parked replay --all --tenant acme --reason exhausted --since 2h",
            "leveret parked replay --all --tenant acme --dry-run",
            "leveret parked replay --all --tenant acme --rate 50 --follow",
        ),
    )(takes(Replay)(replay_))


def replay_(options: Replay) -> None:
    """Send entries again with their original data; each leaves the parked queue after the broker's confirm.

    An entry whose subscription no longer exists stays parked; the command names it and exits with 1.
    With --job, --rate, --to or --follow a worker does it; see `leveret jobs`.
    """
    if not options.ids and not options.everything:
        raise typer.BadParameter("give the ids of entries, or --all with or without filters")
    if options.dry_run:
        _count(options)
    elif options.is_job:
        _make_job(options)
    else:
        _replay_now(options)


def _count(options: Replay) -> None:
    """Print how many entries a replay would take, from the store's index: no entry is touched."""
    with errors_in_one_line():
        found = parked_index().listed(options.filter(options.ids or ()))
    rows, chosen = found.rows, found.chosen
    missing = (chosen.ids or frozenset()) - {row.id for row in rows}
    keys = (GroupBy.TENANT, GroupBy.SUBSCRIPTION, GroupBy.REASON)
    columns = [*(key.value for key in keys), "count", "oldest", "newest"]
    groups = grouped(map(row_as_cells, rows), keys)
    print_rows(columns, groups, as_json=options.as_json, empty="nothing would be replayed")
    if rows and not options.as_json:
        typer.echo(f"{len(rows)} entries would be replayed")
    if missing:
        fail(f"not parked: {' '.join(sorted(missing))}; see leveret parked list")


def _make_job(options: Replay) -> None:
    """Store a job, print it, and follow it if that is asked for."""
    with errors_in_one_line():
        source = replays()
        chosen = source.resolved(options.filter(options.ids or ()))
        job = source.make_job(chosen, options.rate, options.to)
        print_rows(COLUMNS, [job], as_json=options.as_json)
        if options.follow:
            follow(source, str(job["id"]), as_json=options.as_json)


def _replay_now(options: Replay) -> None:
    """Replay, and print each entry that was sent."""
    with errors_in_one_line():
        source: Replays = replays()
        chosen = source.resolved(options.filter(options.ids or ()))
        done = source.replay(chosen, wait=options.wait)
    print_rows(
        ("id", "tenant", "type", "event_id"),
        done.rows,
        as_json=options.as_json,
        empty="nothing was replayed",
    )
    faults = _faults(done)
    if done.interrupted:
        warn("\n".join(faults))
        interrupted(done.interrupted)
    if faults:
        fail("\n".join(faults))


def _faults(done: Replayed) -> list[str]:
    faults = [f"{one} stays parked: {why}" for one, why in done.stays.items()]
    if done.broken is not None:
        faults.append(done.broken)
    elif done.missing and not done.interrupted:
        faults.append(f"not parked: {' '.join(done.missing)}; see leveret parked list")
    return faults
