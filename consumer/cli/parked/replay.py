"""``leveret parked replay``: send entries again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from consumer.cli.parked.drain import drain
from consumer.cli.parked.index import read_index, resolved
from consumer.cli.parked.options import Chosen, Everything, Ids, Wait
from consumer.cli.parked.replay_job import COLUMNS, follow, make_job
from consumer.cli.parked.shared import interrupted, turn_of
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_rows, warn
from consumer.core.errors import BrokerUnavailable, StoreUnavailable
from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import GroupBy, grouped
from consumer.core.message.records import row_as_cells
from consumer.core.operate.audited import parked_change
from consumer.edges.operate.parked.queue import Skipped, replay
from consumer.edges.store import opened_store
from consumer.settings import Settings, load_settings


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
        _replay_here(options)


def _count(options: Replay) -> None:
    """Print how many entries a replay would take, from the store's index: no entry is touched."""
    with errors_in_one_line():
        wanted = options.filter(options.ids or ())
        index = read_index(load_settings(), wanted)
        chosen = index.resolved(wanted)
        index.demand_whole()
    rows = [row for row in index.rows if chosen.takes_row(row)]
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
        settings = load_settings()
        chosen = resolved(settings, options.filter(options.ids or ()))
        job = make_job(settings, chosen, options.rate, options.to)
        print_rows(COLUMNS, [job], as_json=options.as_json)
        if options.follow:
            follow(settings, str(job["id"]), as_json=options.as_json)


def _replay_here(options: Replay) -> None:
    """Replay within this command."""
    rows: list[Mapping[str, object]] = []
    skipped: list[Skipped] = []
    broken: str | None = None
    was_interrupted = False

    def take(one: ParkedEntry | Skipped) -> None:
        if isinstance(one, Skipped):
            skipped.append(one)
        else:
            rows.append(entry_as_dict(one))

    with errors_in_one_line():
        settings = load_settings()
        chosen = resolved(settings, options.filter(options.ids or ()))
        known = _subscriptions(settings)
        try:
            turn = turn_of("replay", wait=options.wait)
            replaying = partial(replay, turn=turn, wanted=chosen, subscriptions=known)
            drain(settings, replaying, take, lambda: parked_change("replayed", chosen, len(rows)))
        except BrokerUnavailable as error:
            broken = str(error)
        except KeyboardInterrupt:
            was_interrupted = True
    print_rows(
        ("id", "tenant", "type", "event_id"), rows, as_json=options.as_json, empty="nothing was replayed"
    )
    faults = [f"{one.id} stays parked: {one.reason}" for one in skipped]
    missing = (chosen.ids or frozenset()) - {str(row["id"]) for row in rows} - {one.id for one in skipped}
    if broken is not None:
        faults.append(broken)
    elif missing and not was_interrupted:
        faults.append(f"not parked: {' '.join(sorted(missing))}; see leveret parked list")
    if was_interrupted:
        warn("\n".join(faults))
        interrupted()
    if faults:
        fail("\n".join(faults))


def _subscriptions(settings: Settings) -> Collection[str]:
    """Return the ids of all subscriptions, as a worker cancels deliveries of any other.

    Raises:
        StoreUnavailable: the store cannot be read, so that nothing is replayed.
    """

    async def run() -> Collection[str]:
        async with opened_store(settings) as store:
            return await store.subscription_ids()

    try:
        return asyncio.run(run())
    except StoreUnavailable as error:
        raise StoreUnavailable(f"nothing was replayed, as the store cannot be read: {error}") from None
