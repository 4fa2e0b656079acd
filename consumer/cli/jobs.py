"""``leveret jobs``: list replay jobs, show one, pause, resume or cancel it.

Data flow: store, or API -> table or JSON; pause, resume, cancel -> store -> the worker, within half a second
of its work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Protocol, TypeVar

import typer

from consumer.cli.remote.choice import chosen
from consumer.cli.remote.jobs import RemoteJobs
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_fields, print_json, print_rows
from consumer.core.errors import ConfigError
from consumer.core.message.jobs import JobState, Steer, job_as_dict
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import load_settings

_T = TypeVar("_T")
JobDict = Mapping[str, object]

app = typer.Typer(help="Replay jobs, which a worker works off.", no_args_is_help=True)

COLUMNS = ("id", "state", "origin", "filter", "rate_per_s", "replayed", "refused", "created_at", "detail")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a job, job_...")]
Pending = Annotated[bool, typer.Option("--pending", help="Only jobs that are running or paused.")]


class Jobs(Protocol):
    """Where jobs are: the store, or an API. Each has the fields of :func:`job_as_dict`."""

    def all(self, *, pending: bool) -> Sequence[JobDict]:
        """Return the jobs, the newest first; with *pending* only those that are running or paused."""

    def one(self, job: str) -> JobDict:
        """Return one job.

        Raises:
            LeveretError: there is no such job.
        """

    def steer(self, job: str, step: Steer) -> JobDict:
        """Pause, resume or cancel a job.

        Raises:
            LeveretError: there is no such job, or its state does not allow it.
        """


class StoredJobs:
    """The jobs in the store."""

    def all(self, *, pending: bool) -> Sequence[JobDict]:
        """See :class:`Jobs`."""
        rows = _with_store(lambda store: store.records.jobs.all())
        wanted = [row for row in rows if not pending or row.job.state in (JobState.RUNNING, JobState.PAUSED)]
        return [job_as_dict(row) for row in wanted]

    def one(self, job: str) -> JobDict:
        """See :class:`Jobs`."""
        row = _with_store(lambda store: store.records.jobs.get(job))
        if row is None:
            raise ConfigError(_unknown(job))
        return job_as_dict(row)

    def steer(self, job: str, step: Steer) -> JobDict:
        """See :class:`Jobs`."""
        return _with_store(lambda store: _steered(store, job, step))


def _jobs() -> Jobs:
    client = chosen()
    return StoredJobs() if client is None else RemoteJobs(client)


@app.command("list", epilog=examples("leveret jobs list --pending", "leveret jobs list --json"))
def list_(pending: Pending = False, as_json: AsJson = False) -> None:
    """Print the jobs, the newest first, with their progress."""
    with errors_in_one_line():
        rows = _jobs().all(pending=pending)
    print_rows(COLUMNS, rows, as_json=as_json, empty="there are no jobs")


@app.command("show", epilog=examples("leveret jobs show job_0123456789ab"))
def show(job: Id, as_json: AsJson = False) -> None:
    """Print one job with its filter and its progress."""
    with errors_in_one_line():
        row = _jobs().one(job)
    if as_json:
        print_json(row)
    else:
        print_fields({name: value for name, value in row.items() if value is not None})


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
        row = _jobs().steer(job, step)
    print_rows(COLUMNS, [row], as_json=as_json)


async def _steered(store: SqlStore, job: str, step: Steer) -> JobDict:
    """Steer a job; the store writes the line of the audit log.

    Raises:
        ConfigError: there is no such job, or its state does not allow it.
    """
    row, is_changed = await store.records.jobs.steer(job, step, who=cli_author())
    if row is None:
        raise ConfigError(_unknown(job))
    if not is_changed:
        raise ConfigError(f"{job} is {row.job.state.value}, so {step.value} does nothing")
    return job_as_dict(row)


def _with_store(ask: Callable[[SqlStore], Awaitable[_T]]) -> _T:
    return asyncio.run(_asked(ask))


async def _asked(ask: Callable[[SqlStore], Awaitable[_T]]) -> _T:
    async with opened_store(load_settings()) as store:
        return await ask(store)


def _unknown(job: str) -> str:
    return f"there is no job {job}; see leveret jobs list"
