"""Make a replay job and follow it, for ``leveret parked replay``.

Data flow: filter, rate, target -> :class:`consumer.core.message.jobs.ReplayJob` -> store -> a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import typer

from consumer.cli.shared.output import print_json
from consumer.core.errors import ConfigError
from consumer.core.message.jobs import JobState, job_as_dict
from consumer.core.message.parked_filter import Filter
from consumer.edges.operate.parked.jobs import ReplayHow, target_of
from consumer.edges.operate.parked.jobs import make_job as make
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings

COLUMNS = ("id", "state", "filter", "rate_per_s", "to", "created_at")
FOLLOW_S = 0.5  #: time between two looks at the progress


def make_job(
    settings: Settings, chosen: Filter, rate_per_s: float | None, to: str | None
) -> Mapping[str, object]:
    """Store a job and return it as it is shown.

    Args:
        settings: Names the store.
        chosen: Chooses the entries.
        rate_per_s: Entries a second; None is as fast as the broker confirms.
        to: The subscription that gets the deliveries: its id, ``tenant/name`` or URL; None is their own.

    Raises:
        ConfigError: there is no subscription *to*.
        StoreUnavailable: the store cannot be written.
    """

    async def run() -> Mapping[str, object]:
        async with opened_store(settings) as store:
            how = ReplayHow(rate_per_s=rate_per_s, to=None if to is None else await _target(store, to))
            row = await make(store, chosen, how, who=cli_author(), now=time.time())
            return job_as_dict(row)

    return asyncio.run(run())


def follow(settings: Settings, job: str, *, as_json: bool) -> None:
    """Print the progress of a job until it no longer runs; Ctrl-C ends this, and not the job."""

    async def run() -> None:
        before: object = None
        async with opened_store(settings) as store:
            while True:
                row = await store.records.jobs.get(job)
                if row is None:
                    return
                if row.counts != before or row.job.state is not JobState.RUNNING:
                    before = row.counts
                    _print(job_as_dict(row), as_json=as_json)
                if row.job.state is not JobState.RUNNING:
                    return
                await asyncio.sleep(FOLLOW_S)

    asyncio.run(run())


def _print(row: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    detail = f"; {row['detail']}" if row["detail"] else ""
    typer.echo(f"{row['id']} {row['state']}: {row['replayed']} replayed, {row['refused']} stay{detail}")


async def _target(store: SqlStore, to: str) -> str:
    try:
        return target_of(await store.entries(), to)
    except ConfigError as error:
        raise ConfigError(f"--to: {error}") from None
