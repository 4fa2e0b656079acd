"""``leveret jobs``: list replay jobs, show one, pause, resume or cancel it.

Data flow: store -> table or JSON; pause, resume, cancel -> store -> the worker, within half a second of its
work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_fields, print_json, print_rows
from consumer.core.message.jobs import JobRow, JobState, Steer, job_as_dict
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import load_settings

_T = TypeVar("_T")

app = typer.Typer(help="Replay jobs, which a worker works off.", no_args_is_help=True)

COLUMNS = ("id", "state", "origin", "filter", "rate_per_s", "replayed", "refused", "created_at", "detail")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a job, job_...")]
Pending = Annotated[bool, typer.Option("--pending", help="Only jobs that are running or paused.")]


@app.command("list", epilog=examples("leveret jobs list --pending", "leveret jobs list --json"))
def list_(pending: Pending = False, as_json: AsJson = False) -> None:
    """Print the jobs, the newest first, with their progress."""
    with errors_in_one_line():
        rows = _with_store(lambda store: store.records.jobs.all())
    wanted = [row for row in rows if not pending or row.job.state in (JobState.RUNNING, JobState.PAUSED)]
    print_rows(COLUMNS, [job_as_dict(row) for row in wanted], as_json=as_json, empty="there are no jobs")


@app.command("show", epilog=examples("leveret jobs show job_0123456789ab"))
def show(job: Id, as_json: AsJson = False) -> None:
    """Print one job with its filter and its progress."""
    with errors_in_one_line():
        row = _with_store(lambda store: store.records.jobs.get(job))
    if row is None:
        fail(_unknown(job))
    if as_json:
        print_json(job_as_dict(row))
    else:
        print_fields({name: value for name, value in job_as_dict(row).items() if value is not None})


@app.command("pause", epilog=examples("leveret jobs pause job_0123456789ab"))
def pause(job: Id, as_json: AsJson = False) -> None:
    """Let a running job rest; its other entries stay parked until it is resumed."""
    _steer(job, Steer.PAUSE, as_json=as_json)


@app.command("resume", epilog=examples("leveret jobs resume job_0123456789ab"))
def resume(job: Id, as_json: AsJson = False) -> None:
    """Continue a paused or cancelled job where it stopped."""
    _steer(job, Steer.RESUME, as_json=as_json)


@app.command("cancel", epilog=examples("leveret jobs cancel job_0123456789ab"))
def cancel(job: Id, as_json: AsJson = False) -> None:
    """End a job; entries that it has not sent stay parked."""
    _steer(job, Steer.CANCEL, as_json=as_json)


def _steer(job: str, step: Steer, *, as_json: bool) -> None:
    with errors_in_one_line():
        row, is_changed = _with_store(lambda store: _steered(store, job, step))
    if row is None:
        fail(_unknown(job))
    if not is_changed:
        fail(f"{job} is {row.job.state.value}, so {step.value} does nothing")
    print_rows(COLUMNS, [job_as_dict(row)], as_json=as_json)


async def _steered(store: SqlStore, job: str, step: Steer) -> tuple[JobRow | None, bool]:
    return await store.records.jobs.steer(job, step, who=cli_author())


def _with_store(ask: Callable[[SqlStore], Awaitable[_T]]) -> _T:
    return asyncio.run(_asked(ask))


async def _asked(ask: Callable[[SqlStore], Awaitable[_T]]) -> _T:
    async with opened_store(load_settings()) as store:
        return await ask(store)


def _unknown(job: str) -> str:
    return f"there is no job {job}; see leveret jobs list"
