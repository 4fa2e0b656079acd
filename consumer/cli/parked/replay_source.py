"""Replay parked entries within this command, as a job, or over an API, for ``leveret parked replay``.

Data flow: filter -> parked queue -> confirmed, row by row; or filter, rate, target ->
:class:`consumer.core.message.jobs.ReplayJob` -> store -> a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

import typer

from consumer.cli.parked.drain import drain
from consumer.cli.parked.index import resolved
from consumer.cli.parked.shared import turn_of
from consumer.cli.remote.choice import chosen as chosen_server
from consumer.cli.shared.output import print_json
from consumer.cli.values.parked import STAYS, Replayed
from consumer.core.errors import BrokerUnavailable, ConfigError, StoreUnavailable
from consumer.core.message.jobs import JobState, job_as_dict
from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.audited import parked_change
from consumer.edges.operate.parked.jobs import ReplayHow, target_of
from consumer.edges.operate.parked.jobs import make_job as make
from consumer.edges.operate.parked.queue import Skipped, replay
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings, load_settings

COLUMNS = ("id", "state", "filter", "rate_per_s", "to", "created_at")
FOLLOW_S = 0.5  #: time between two looks at the progress


class Replays(Protocol):
    """Parked entries that can be sent again: in the queue and by the store's jobs, or behind an API."""

    def resolved(self, wanted: Filter) -> Filter:
        """Return *wanted* with the id of its subscription.

        Raises:
            LeveretError: the tenant or the subscription is unknown.
        """

    def replay(self, chosen: Filter, *, wait: bool) -> Replayed:
        """Send entries again.

        Raises:
            LeveretError: a command has the entries in hand; nothing was sent.
        """

    def make_job(self, chosen: Filter, rate_per_s: float | None, to: str | None) -> Mapping[str, object]:
        """Make a job and return it as it is shown.

        Args:
            chosen: Chooses the entries.
            rate_per_s: Entries a second; None is as fast as the broker confirms.
            to: The subscription that gets the deliveries: its id, ``tenant/name`` or URL; None is their own.

        Raises:
            LeveretError: there is no subscription *to*.
        """

    def job(self, job: str) -> Mapping[str, object] | None:
        """Return a job with its progress; None if it has gone."""


class QueueReplays:
    """The entries in the parked queue, and the jobs in the store."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def resolved(self, wanted: Filter) -> Filter:
        """See :class:`Replays`."""
        return resolved(self._settings, wanted)

    def replay(self, chosen: Filter, *, wait: bool) -> Replayed:
        """See :class:`Replays`."""
        rows: list[Mapping[str, object]] = []
        stays: dict[str, str] = {}
        broken, left = None, ""

        def take(one: ParkedEntry | Skipped) -> None:
            if isinstance(one, Skipped):
                stays[one.id] = one.reason
            else:
                rows.append(entry_as_dict(one))

        known = _subscriptions(self._settings)
        try:
            turn = turn_of("replay", wait=wait)
            replaying = partial(replay, turn=turn, wanted=chosen, subscriptions=known)
            drain(self._settings, replaying, take, lambda: parked_change("replayed", chosen, len(rows)))
        except BrokerUnavailable as error:
            broken = str(error)
        except KeyboardInterrupt:
            left = STAYS
        missing = (chosen.ids or frozenset()) - {str(row["id"]) for row in rows} - stays.keys()
        return Replayed(rows=rows, stays=stays, missing=sorted(missing), broken=broken, interrupted=left)

    def make_job(self, chosen: Filter, rate_per_s: float | None, to: str | None) -> Mapping[str, object]:
        """See :class:`Replays`."""

        async def run() -> Mapping[str, object]:
            async with opened_store(self._settings) as store:
                how = ReplayHow(rate_per_s=rate_per_s, to=None if to is None else await _target(store, to))
                return job_as_dict(await make(store, chosen, how, who=cli_author(), now=time.time()))

        return asyncio.run(run())

    def job(self, job: str) -> Mapping[str, object] | None:
        """See :class:`Replays`."""

        async def run() -> Mapping[str, object] | None:
            async with opened_store(self._settings) as store:
                row = await store.records.jobs.get(job)
                return None if row is None else job_as_dict(row)

        return asyncio.run(run())


def replays() -> Replays:
    """Return the entries of the server that was named, or else those of the broker.

    Raises:
        ConfigError: the settings are not usable.
    """
    client = chosen_server()
    if client is None:
        return QueueReplays(load_settings())
    from consumer.cli.remote.parked import RemoteParked  # noqa: PLC0415 (imports an HTTP client)

    return RemoteParked(client)


def follow(source: Replays, job: str, *, as_json: bool) -> None:
    """Print the progress of a job until it no longer runs; Ctrl-C ends this, and not the job."""
    before: object = None
    while (row := source.job(job)) is not None:
        counts, is_running = (
            (row["replayed"], row["refused"], row["detail"]),
            row["state"] == JobState.RUNNING,
        )
        if counts != before or not is_running:
            before = counts
            _print(row, as_json=as_json)
        if not is_running:
            return
        time.sleep(FOLLOW_S)


def _print(row: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    detail = f"; {row['detail']}" if row["detail"] else ""
    typer.echo(f"{row['id']} {row['state']}: {row['replayed']} replayed, {row['refused']} stay{detail}")


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


async def _target(store: SqlStore, to: str) -> str:
    try:
        return target_of(await store.entries(), to)
    except ConfigError as error:
        raise ConfigError(f"--to: {error}") from None
