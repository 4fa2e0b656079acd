"""Read and write replay jobs. Implements :class:`consumer.parked_ports.JobStore`.

An entry of a job is noted before it is sent, and marked once it has left the parked queue. So a job that
continues after a kill -9 counts no entry twice: the same entry has the same row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.message.jobs import (
    STEERS,
    JobCounts,
    JobRow,
    JobState,
    LastMade,
    Origin,
    ReplayJob,
    Steer,
    read_spec,
    write_spec,
)
from consumer.core.message.parked_filter import Filter
from consumer.core.message.records import short
from consumer.core.operate.audited import job_made, job_steered
from consumer.edges.store.batches import chunks
from consumer.edges.store.database import Database
from consumer.edges.store.rows.audit import write_audit
from consumer.edges.store.tables import JOB_ENTRIES, JOBS, PARKED_INDEX

KEPT = 100  #: jobs that are kept, the newest ones, and all that have not ended
LEASE_S = 20.0  #: a worker that shows no progress for this long loses its job to the next one
ROUNDED_S = 0.001  #: resolution of the time of an entry in the queue, in seconds
_PENDING = (JobState.RUNNING.value, JobState.PAUSED.value)


class Jobs:
    """The replay jobs of one store."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._unreadable: dict[str, str] = {}

    async def all(self) -> Sequence[JobRow]:
        """Return every job, newest first.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading(JOBS) as connection:
            return () if connection is None else await _rows(connection)

    async def get(self, job: str) -> JobRow | None:
        """Return one job; None if there is none with this id."""
        async with self._database.reading(JOBS) as connection:
            found = () if connection is None else await _rows(connection, job)
        return found[0] if found else None

    async def last_made(self) -> Mapping[Origin, LastMade]:
        """Return when the last job of each origin was made, and whether one is pending."""
        async with self._database.reading(JOBS) as connection:
            if connection is None:
                return {}
            query = await _select_jobs(connection)
            rows = (await connection.execute(query.order_by(JOBS.c.created))).all()
        last: dict[Origin, LastMade] = {}
        for row in rows:
            job = _read(row)
            if isinstance(job, str):
                continue
            was_pending = job.origin in last and last[job.origin].is_pending
            last[job.origin] = LastMade(row.created, was_pending or row.state in _PENDING)
        return last

    async def add(self, job: ReplayJob, *, who: str | None = None) -> None:
        """Store a new job, and delete the oldest ended ones; *who* is for the audit log.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        values = {
            "id": job.id,
            "state": job.state.value,
            "spec": write_spec(job),
            "created": job.created,
            "updated": self._now(),
            "holder": "",
            "held_until": 0.0,
            "replayed": 0,
            "refused": 0,
            "detail": "",
            "total": job.total,
        }
        async with self._database.writing() as connection:
            await connection.execute(insert(JOBS), values)
            await write_audit(connection, who, [job_made(JobRow(job=job))], self._now())
            ended = select(JOBS.c.id).where(JOBS.c.state.not_in(_PENDING)).order_by(JOBS.c.created.desc())
            old = (await connection.execute(ended.offset(KEPT))).scalars().all()
            for some in chunks(old):
                await connection.execute(delete(JOB_ENTRIES).where(JOB_ENTRIES.c.job.in_(some)))
                await connection.execute(delete(JOBS).where(JOBS.c.id.in_(some)))

    async def steer(self, job: str, step: Steer, *, who: str | None = None) -> tuple[JobRow | None, bool]:
        """Do what an operator wants; return the job, and whether its state changed.

        *who* is for the audit log.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        before, after = STEERS[step]
        async with self._database.writing() as connection:
            possible = and_(JOBS.c.id == job, JOBS.c.state.in_([state.value for state in before]))
            done = await connection.execute(
                update(JOBS).where(possible).values(state=after.value, updated=self._now(), detail="")
            )
            found = await _rows(connection, job)
            if found and done.rowcount:
                await write_audit(connection, who, [job_steered(found[0], step)], self._now())
        return (found[0] if found else None), bool(done.rowcount)

    async def claim(self, worker: str, origins: Collection[Origin] = tuple(Origin)) -> ReplayJob | None:
        """Take the oldest running job that no other worker holds, those of operators first; None: no job.

        Args:
            worker: This worker.
            origins: Jobs of other origins are left.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        now = self._now()
        free = and_(
            JOBS.c.state == JobState.RUNNING.value,
            or_(JOBS.c.held_until <= now, JOBS.c.held_until > now + LEASE_S, JOBS.c.holder == worker),
        )
        oldest = select(JOBS).where(free).order_by(JOBS.c.created, JOBS.c.id)
        async with self._database.reading(JOBS) as connection:
            rows = () if connection is None else (await connection.execute(oldest)).all()
        read = {row.id: _read(row) for row in rows}
        self._unreadable = {key: each for key, each in read.items() if isinstance(each, str)}
        jobs = [each for each in read.values() if isinstance(each, ReplayJob) and each.origin in origins]
        if not jobs:
            return None
        found = min(jobs, key=lambda job: job.origin is not Origin.OPERATOR)
        at = next(row for row in rows if row.id == found.id)
        if at.holder == worker and _is_fresh(at.held_until, now):
            return found
        async with self._database.writing() as connection:
            held = update(JOBS).where(JOBS.c.id == found.id, free)
            done = await connection.execute(held.values(holder=worker, held_until=now + LEASE_S))
        return found if done.rowcount else None

    def unreadable(self) -> Mapping[str, str]:
        """Return why the last claim skipped rows, by the ids of their jobs."""
        return self._unreadable

    async def keep(self, job: str, worker: str) -> bool:
        """Hold a job on while it waits; False if it is no longer running, or another worker's.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        now = self._now()
        ours = and_(JOBS.c.id == job, JOBS.c.holder == worker, JOBS.c.state == JobState.RUNNING.value)
        async with self._database.reading(JOBS) as connection:
            until = (
                None if connection is None else await connection.scalar(select(JOBS.c.held_until).where(ours))
            )
        if until is None or _is_fresh(until, now):
            return until is not None
        async with self._database.writing() as connection:
            done = await connection.execute(update(JOBS).where(ours).values(held_until=now + LEASE_S))
        return bool(done.rowcount)

    async def intend(self, job: str, worker: str, entries: Collection[str]) -> bool:
        """Note entries that are sent next; False if the job is no longer running, or another worker's.

        Two messages may have the same id (a crash parked one twice): they share a row, so they count once.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        now = self._now()
        async with self._database.writing() as connection:
            ours = and_(JOBS.c.id == job, JOBS.c.holder == worker, JOBS.c.state == JobState.RUNNING.value)
            done = await connection.execute(
                update(JOBS).where(ours).values(held_until=now + LEASE_S, updated=now, detail="")
            )
            if not done.rowcount:
                return False
            known: set[str] = set()
            different = list(dict.fromkeys(entries))
            for some in chunks(different):
                of_job = and_(JOB_ENTRIES.c.job == job, JOB_ENTRIES.c.entry.in_(some))
                known |= set((await connection.execute(select(JOB_ENTRIES.c.entry).where(of_job))).scalars())
            fresh = [{"job": job, "entry": entry, "sent": False} for entry in different if entry not in known]
            if fresh:
                await connection.execute(insert(JOB_ENTRIES), fresh)
        return True

    async def sent(self, job: str, entries: Mapping[str, float]) -> None:
        """Mark entries that have left the parked queue, and delete them from its index.

        Args:
            job: Id of the job.
            entries: Parking time of each, by its id; in the index an entry that was parked again since stays.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        if not entries:
            return
        one = and_(JOB_ENTRIES.c.job == job, JOB_ENTRIES.c.entry == bindparam("of"))
        old = and_(PARKED_INDEX.c.id == bindparam("of"), PARKED_INDEX.c.parked_at <= bindparam("at"))
        async with self._database.writing() as connection:
            await connection.execute(
                update(JOB_ENTRIES).where(one).values(sent=True), [{"of": entry} for entry in entries]
            )
            await connection.execute(
                delete(PARKED_INDEX).where(old),
                [{"of": entry, "at": at + ROUNDED_S} for entry, at in entries.items()],
            )

    async def end_pass(self, job: str, worker: str, refused: Collection[str], detail: str) -> bool:
        """End a job whose every entry was seen: those that were noted and are not parked were sent.

        Args:
            job: Id of the job.
            worker: This worker.
            refused: Ids of the entries that stay parked.
            detail: Why the last of them stays.

        Returns:
            False if the job is another worker's, or no longer running.
        """
        async with self._database.writing() as connection:
            ours = and_(JOBS.c.id == job, JOBS.c.holder == worker, JOBS.c.state == JobState.RUNNING.value)
            values = {
                "state": JobState.DONE.value,
                "updated": self._now(),
                "refused": len(refused),
                "detail": short(detail),
            }
            if not (await connection.execute(update(JOBS).where(ours).values(values))).rowcount:
                return False
            for some in chunks(list(refused)):
                stays = and_(JOB_ENTRIES.c.job == job, JOB_ENTRIES.c.entry.in_(some))
                await connection.execute(delete(JOB_ENTRIES).where(stays))
            of_job = JOB_ENTRIES.c.job == job
            count = await connection.scalar(select(func.count()).select_from(JOB_ENTRIES).where(of_job))
            await connection.execute(update(JOBS).where(JOBS.c.id == job).values(replayed=count or 0))
            await connection.execute(delete(JOB_ENTRIES).where(of_job))
        return True

    async def explain(self, job: str, detail: str) -> None:
        """Note what a job waits for; the same text is written once."""
        text = short(detail)
        async with self._database.reading(JOBS) as connection:
            query = select(JOBS.c.detail).where(JOBS.c.id == job)
            before = text if connection is None else await connection.scalar(query)
        if before == text:
            return
        async with self._database.writing() as connection:
            await connection.execute(
                update(JOBS).where(JOBS.c.id == job).values(detail=text, updated=self._now())
            )


async def _rows(connection: AsyncConnection, job: str | None = None) -> Sequence[JobRow]:
    """Return the jobs, newest first, or only one."""
    counted = select(JOB_ENTRIES.c.job, func.count()).where(JOB_ENTRIES.c.sent).group_by(JOB_ENTRIES.c.job)
    query = (await _select_jobs(connection)).order_by(JOBS.c.created.desc(), JOBS.c.id)
    if job is not None:
        query, counted = query.where(JOBS.c.id == job), counted.where(JOB_ENTRIES.c.job == job)
    rows = (await connection.execute(query)).all()
    counts = {row[0]: row[1] for row in (await connection.execute(counted)).all()}
    return [_job_row(row, counts.get(row.id, 0)) for row in rows]


def _is_fresh(held_until: float, now: float) -> bool:
    """Return whether less than half of a lease has passed, so that it need not be written again."""
    return now + LEASE_S / 2 < held_until <= now + LEASE_S


async def _select_jobs(connection: AsyncConnection) -> Select[Any]:
    """Return a query of the columns that exist: an earlier release made no column for the total."""
    there = await connection.run_sync(_columns)
    return select(*(column for column in JOBS.c if column.name in there))


def _columns(connection: Connection) -> frozenset[str]:
    return frozenset(column["name"] for column in inspect(connection).get_columns(JOBS.name))


def _job_row(row: Row[Any], replayed: int) -> JobRow:
    job = _read(row)
    counts = JobCounts(replayed=row.replayed + replayed, refused=row.refused, detail=row.detail)
    if isinstance(job, str):  # it chooses no entry
        nothing = Filter(ids=frozenset())
        counts = replace(counts, detail=short(job))
        job = ReplayJob(id=row.id, chosen=nothing, created=row.created, state=JobState.UNREADABLE)
    return JobRow(job=job, counts=counts, updated=row.updated, holder=row.holder)


def _read(row: Row[Any]) -> ReplayJob | str:
    """Return the job of a row, or why it cannot be read."""
    try:
        return ReplayJob(
            id=row.id,
            state=JobState(row.state),
            created=row.created,
            total=getattr(row, "total", None),
            **read_spec(row.spec),
        )
    except (ValueError, KeyError, TypeError) as error:
        return f"this row cannot be read: {type(error).__name__}: {error}"
