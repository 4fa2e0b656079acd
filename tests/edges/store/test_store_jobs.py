"""Replay jobs in the store: one worker holds one, and no entry counts twice (S1-5); sizes of tenants."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from consumer.core.message.jobs import (
    JobState,
    LastMade,
    Origin,
    ReplayJob,
    Steer,
    job_as_dict,
    write_spec,
)
from consumer.core.message.parked_filter import Filter
from consumer.core.message.records import ParkedCounts
from consumer.edges.store.rows.jobs import KEPT, LEASE_S, Jobs
from consumer.edges.store.rows.records import Batch
from consumer.edges.store.store import SqlStore
from consumer.edges.store.tables import JOBS
from tests.support.builders.index_rows import row
from tests.support.stores import Place

AT = 1_767_225_600.0


def job(number: int = 0, **more: Any) -> ReplayJob:
    """A job; a higher number was made later."""
    fields: dict[str, Any] = {"chosen": Filter(tenant="acme"), "rate_per_s": 50.0}
    return ReplayJob(id=f"job_{number:012x}", created=AT + number, **fields | more)


async def _counts(jobs: Jobs, number: int = 0) -> tuple[str, int, int]:
    found = await jobs.get(job(number).id)
    assert found is not None
    return found.job.state.value, found.counts.replayed, found.counts.refused


def _writes_into(writes: list[str]) -> Callable[..., None]:
    def note(*seen: Any) -> None:
        if seen[2].startswith("UPDATE leveret_jobs"):
            writes.append(seen[2])

    return note


def _clock(store: SqlStore, at: Callable[[], float]) -> Jobs:
    return Jobs(store.records._database, at)


async def test_a_job_is_worked_off_and_counted(place: Place) -> None:
    """S1-5: noted, sent, marked; at the end noted entries that are gone count, and parked ones do not."""
    store = place.open()
    jobs = store.records.jobs
    assert (await jobs.all(), await jobs.get("job_x"), await jobs.claim("w1")) == ((), None, None)
    await jobs.add(job())
    assert await jobs.claim("w1") == job()
    assert await jobs.intend(job().id, "w1", ["a", "b"])
    assert await _counts(jobs) == ("running", 0, 0)

    await jobs.sent(job().id, {"a": AT, "b": AT})
    assert await jobs.intend(job().id, "w1", ["b", "c", "d"])  # b came back, as its ack was lost; w1 dies
    assert await _counts(jobs) == ("running", 2, 0)
    assert await jobs.end_pass(job().id, "w1", ["d", "e"], "no subscription")

    assert await _counts(jobs) == ("done", 3, 2)
    assert not await jobs.intend(job().id, "w1", ["f"])
    assert not await jobs.end_pass(job().id, "w1", [], "")
    assert await jobs.last_made() == {Origin.OPERATOR: LastMade(AT, is_pending=False)}


async def test_a_waiting_job_is_held_on_and_rarely_written(place: Place) -> None:
    """Fault 57: at a slow rate its worker keeps it; a pause ends that."""
    store, now = place.open(), AT
    await store.load()
    jobs = _clock(store, lambda: now)
    assert not await jobs.keep(job().id, "w1")
    await jobs.add(job())
    await jobs.claim("w1")

    for _ in range(5):
        now += LEASE_S * 0.75
        assert await jobs.keep(job().id, "w1")
        assert await jobs.claim("w2") is None
    assert not await jobs.keep(job().id, "w2")
    await jobs.steer(job().id, Steer.PAUSE)

    assert not await jobs.keep(job().id, "w1")


@pytest.mark.parametrize(
    "spec",
    ["", "[]", "{", write_spec(job())[:-1] + ',"newer":1}', write_spec(job()).replace("50.0", '"fast"')],
)
async def test_a_damaged_job_stops_no_other(place: Place, spec: str) -> None:
    """Fault 57: a row of a newer release, or a damaged one, is shown and skipped; it can be cancelled."""
    store = place.open()
    jobs = store.records.jobs
    await jobs.add(job(0))
    await jobs.add(job(1))
    async with store.records._database.writing() as connection:
        await connection.execute(update(JOBS).where(JOBS.c.id == job(0).id).values(spec=spec))

    assert await jobs.claim("w1") == job(1)

    assert list(jobs.unreadable()) == [job(0).id]
    assert await jobs.last_made() == {Origin.OPERATOR: LastMade(AT + 1, is_pending=True)}
    shown = [job_as_dict(found) for found in await jobs.all()]
    assert [each["state"] for each in shown] == ["running", "unreadable"]
    assert str(shown[1]["detail"]).startswith("this row cannot be read: ")
    assert (await jobs.steer(job(0).id, Steer.CANCEL))[1]
    await jobs.claim("w1")
    assert jobs.unreadable() == {}


async def test_a_job_that_waits_for_a_command_is_not_written_each_second(place: Place) -> None:
    """Decision 36: its row changes with its detail, and when half of its lease has passed."""
    store, now, writes = place.open(), AT, list[str]()
    await store.load()
    jobs = _clock(store, lambda: now)
    await jobs.add(job())
    listener = _writes_into(writes)
    event.listen(Engine, "before_cursor_execute", listener)
    try:
        for _ in range(9):
            assert await jobs.claim("w1") == job()
            await jobs.explain(job().id, "waits: in use by `leveret parked show`")
            now += 1
        assert len(writes) == 2  # the claim, and the detail
        await jobs.explain(job().id, "waits: the broker is away")
        now += LEASE_S / 2
        assert await jobs.claim("w1") == job()
    finally:
        event.remove(Engine, "before_cursor_execute", listener)

    assert len(writes) == 4


async def test_two_entries_of_one_id_in_a_batch_count_once(place: Place) -> None:
    """Fault 57: a crash may park one entry twice; its copies do not stop the job."""
    jobs = place.open().records.jobs
    await jobs.add(job())
    await jobs.claim("w1")

    assert await jobs.intend(job().id, "w1", ["a", "b", "a"])
    assert await jobs.intend(job().id, "w1", ["a", "c", "c"])
    await jobs.sent(job().id, {"a": AT, "b": AT, "c": AT})
    assert await jobs.end_pass(job().id, "w1", [], "")

    assert await _counts(jobs) == ("done", 3, 0)


async def test_one_worker_holds_a_job_until_it_shows_no_progress(place: Place) -> None:
    """Fault 57: after a kill -9 the next worker takes it over; the one before cannot go on beside it."""
    store, now = place.open(), AT
    await store.load()
    jobs = _clock(store, lambda: now)
    await jobs.add(job(1))
    await jobs.add(job(0))
    assert await jobs.claim("w1") == job(0)
    assert await jobs.claim("w2") == job(1)
    assert await jobs.claim("w3") is None

    now += LEASE_S
    assert await jobs.claim("w3") == job(0)

    assert not await jobs.intend(job(0).id, "w1", ["a"])
    assert await jobs.intend(job(0).id, "w3", ["a"])
    now -= 3_600  # the clock is set back
    assert await jobs.claim("w4") is not None


async def test_jobs_of_operators_come_first(place: Place) -> None:
    """S0-8: an automatic replay lets an operator pass; one that still runs is known as pending."""
    jobs = place.open().records.jobs
    await jobs.add(job(0, origin=Origin.AUTOMATIC))
    await jobs.add(job(1, origin=Origin.AUTOMATIC, state=JobState.DONE))
    await jobs.add(job(2, state=JobState.DONE))
    await jobs.add(job(3))

    assert await jobs.claim("w1") == job(3)
    await jobs.end_pass(job(3).id, "w1", [], "")
    assert await jobs.claim("w1", {Origin.OPERATOR}) is None
    assert await jobs.claim("w1") == job(0, origin=Origin.AUTOMATIC)

    assert await jobs.last_made() == {
        Origin.AUTOMATIC: LastMade(AT + 1, is_pending=True),
        Origin.OPERATOR: LastMade(AT + 3, is_pending=False),
    }


async def test_an_operator_pauses_resumes_and_cancels(place: Place) -> None:
    """S1-5: a job that is not running sends nothing; a resumed one keeps its counts."""
    jobs = place.open().records.jobs
    await jobs.add(job())
    await jobs.claim("w1")
    await jobs.intend(job().id, "w1", ["a"])
    await jobs.sent(job().id, {"a": AT})

    for step, state in ((Steer.PAUSE, "paused"), (Steer.RESUME, "running"), (Steer.CANCEL, "cancelled")):
        shown, is_changed = await jobs.steer(job().id, step)
        assert shown is not None
        assert (shown.job.state.value, is_changed) == (state, True)
        assert await jobs.intend(job().id, "w1", []) is (state == "running")
    assert (await jobs.steer(job().id, Steer.PAUSE))[1] is False
    assert await jobs.steer("job_x", Steer.PAUSE) == (None, False)
    await jobs.steer(job().id, Steer.RESUME)
    assert await _counts(jobs) == ("running", 1, 0)
    await jobs.explain(job().id, "waits: \x1b[31m")
    found = await jobs.get(job().id)
    assert found is not None
    assert found.counts.detail == "waits: \\x1b[31m"


async def test_entries_leave_the_index_unless_they_were_parked_again(place: Place) -> None:
    """S1-5: the index follows the job; an entry whose replay failed meanwhile stays in it."""
    store = place.open()
    rows = [row(1), row(2, parked_at=time.time())]
    await store.records.write(Batch(parked={each.id: each for each in rows}))
    await store.records.jobs.add(job())

    await store.records.jobs.sent(job().id, {rows[0].id: rows[0].parked_at, rows[1].id: AT})

    assert [each.id for each in await store.parked_index()] == [rows[1].id]


async def test_old_jobs_are_deleted_and_pending_ones_stay(place: Place) -> None:
    """The newest ended jobs are kept, and every job that is not over."""
    jobs = place.open().records.jobs
    await jobs.add(job(0))
    for number in range(1, KEPT + 3):
        await jobs.add(job(number, state=JobState.DONE))

    kept = [found.job.id for found in await jobs.all()]

    assert len(kept) == KEPT + 1
    assert job(0).id in kept
    assert job(1).id not in kept


async def test_entries_that_are_parked_now_are_counted_by_tenant(place: Place) -> None:
    """S1-6: rows of the index that have expired, or name no tenant, do not count."""
    store = place.open()
    assert await store.records.parked_sizes() == {}
    rows = [row(1), row(2), row(3, tenant="beta"), row(4, tenant=None), row(5, expires_at=AT - 1)]
    await store.records.write(Batch(parked={each.id: each for each in rows}))

    assert await store.records.parked_sizes() == {"acme": 2, "beta": 1}


async def test_entries_that_are_parked_now_are_counted_by_subscription(place: Place) -> None:
    """Those without a tenant count in the sum; the oldest one is known."""
    store = place.open()
    assert await store.records.parked_counts() == ParkedCounts()
    rows = [
        row(1),
        row(2, subscription_ids=("sub_2",)),
        row(3, tenant=None, subscription_ids=()),
        row(4, subscription_ids=("sub_2",)),
        row(5, expires_at=AT - 1),
    ]
    await store.records.write(Batch(parked={each.id: each for each in rows}))

    counts = await store.records.parked_counts()

    assert counts.by_tenant == {"acme": 3}
    assert counts.by_subscription == {"sub_1": 1, "sub_2": 2}
    assert (counts.total, counts.oldest_at) == (4, min(each.parked_at for each in rows))
