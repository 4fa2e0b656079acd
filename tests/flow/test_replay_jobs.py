"""Replay jobs in a worker: paced, stopped between two batches, and only where breakers ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import replace
from typing import Any

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.jobs import AutoReplay, JobCounts, JobRow, JobState, LastMade, Origin, ReplayJob
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.parked_filter import Filter
from consumer.core.model import ParkReason
from consumer.core.subscription.subscription import Subscription
from consumer.flow.replay_jobs import LOOK_S, REST_S, JobPlaces, ReplayJobs
from consumer.parked_ports import HeldEntry
from consumer.settings.parked import ParkedSettings
from tests.support.builders.parked import delivery
from tests.support.fakes import START
from tests.support.worker import Worker

JOB = ReplayJob(id="job_1", chosen=Filter(), created=START)


class MemoryJobs:
    """Implements ``ports.JobStore`` for one job at a time."""

    def __init__(self, *jobs: ReplayJob) -> None:
        self.jobs = list(jobs)
        self.noted: list[str] = []
        self.replayed: dict[str, float] = {}
        self.refused: list[str] = []
        self.detail = ""
        self.damaged: dict[str, str] = {}
        self.stop_after = 10_000  #: batches after which the job is paused

    async def last_made(self) -> Mapping[Origin, LastMade]:
        """Return when the last job of each origin was made."""
        return {job.origin: LastMade(job.created, job.state is JobState.RUNNING) for job in self.jobs}

    async def add(self, job: ReplayJob) -> None:
        """Store a new job."""
        self.jobs.append(job)

    async def get(self, job: str) -> JobRow | None:
        """Return the job with its counts."""
        counts = JobCounts(replayed=len(self.replayed), refused=len(self.refused), detail=self.detail)
        return next((JobRow(job=each, counts=counts) for each in self.jobs if each.id == job), None)

    async def claim(self, worker: str, origins: Collection[Origin]) -> ReplayJob | None:
        """Take the oldest running job."""
        running = (job for job in self.jobs if job.state is JobState.RUNNING and job.origin in origins)
        return next(running, None)

    def unreadable(self) -> Mapping[str, str]:
        """Return why a row was skipped."""
        return self.damaged

    async def keep(self, job: str, worker: str) -> bool:
        """Hold the job on, until it is paused."""
        return any(each.id == job and each.state is JobState.RUNNING for each in self.jobs)

    async def intend(self, job: str, worker: str, entries: Collection[str]) -> bool:
        """Note entries, until the job is paused."""
        self.stop_after -= 1
        if self.stop_after < 0:
            return False
        self.noted += entries
        return True

    async def sent(self, job: str, entries: Mapping[str, float]) -> None:
        """Mark entries."""
        self.replayed |= entries

    async def end_pass(self, job: str, worker: str, refused: Collection[str], detail: str) -> bool:
        """End the job."""
        self.refused, self.detail = list(refused), detail
        self.jobs = [replace(each, state=JobState.DONE) if each.id == job else each for each in self.jobs]
        return True

    async def explain(self, job: str, detail: str) -> None:
        """Note the reason for the job's wait."""
        self.detail = detail


class MemoryParked:
    """Implements ``ports.ParkedPass`` over a list."""

    def __init__(self, *entries: ParkedEntry) -> None:
        self.entries_left = list(entries)
        self.refusals: dict[str, str] = {}
        self.failure: BrokerUnavailable | None = None
        self.are_in_hand = False

    async def entries(
        self, job: ReplayJob, subscriptions: Mapping[str, str]
    ) -> AsyncGenerator[HeldEntry | None, None]:
        """Yield the entries of the job."""
        if self.failure is not None:
            raise self.failure
        self.are_in_hand = True
        try:
            for entry in list(self.entries_left):

                async def send(entry: ParkedEntry = entry) -> None:
                    assert self.are_in_hand, "the entries went back"
                    self.entries_left.remove(entry)

                if job.wants(entry):
                    yield HeldEntry(entry, self.refusals.get(entry.id), send)
            yield None
        finally:
            self.are_in_hand = False


def entry(number: int, subscription: Subscription, **more: Any) -> ParkedEntry:
    """A delivery of acme that was parked exhausted an hour ago."""
    fields: dict[str, Any] = {
        "id": f"prk_{number}",
        "reason": ParkReason.EXHAUSTED,
        "detail": "HTTP 503",
        "parked_at": START - 3_600,
        "ttl_s": 1e6,
        "body": b"{}",
        "delivery": delivery(targets=(subscription.id,)),
    }
    return ParkedEntry(**fields | more)


def jobs_of(
    worker: Worker, store: MemoryJobs, parked: MemoryParked, rules: AutoReplay | None = None
) -> ReplayJobs:
    """The jobs of one worker that leads."""
    places = JobPlaces(jobs=store, parked=parked, worker="w1", leads=lambda: True)
    return ReplayJobs(worker.context, worker.subscriptions, worker.endpoints, places, rules or AutoReplay())


async def test_a_job_sends_its_entries_and_names_those_that_stay(worker: Worker) -> None:
    """S1-5: each entry is noted before it is sent; a refused one stays, and the job ends."""
    [shop] = await worker.subscribe_all("shop")
    parked = MemoryParked(*(entry(number, shop) for number in range(5)))
    parked.refusals["prk_3"] = "no subscription"
    store = MemoryJobs(JOB)

    await jobs_of(worker, store, parked).look()

    assert [left.id for left in parked.entries_left] == ["prk_3"]
    assert sorted(store.replayed) == store.noted == ["prk_0", "prk_1", "prk_2", "prk_4"]
    assert (store.refused, store.detail, store.jobs[0].state) == (["prk_3"], "no subscription", JobState.DONE)


async def test_both_messages_of_one_id_are_sent(worker: Worker) -> None:
    """S1-5: a crash may park an entry twice; both copies leave the parked queue, and the job ends."""
    [shop] = await worker.subscribe_all("shop")
    parked, store = MemoryParked(entry(1, shop), entry(1, shop), entry(2, shop)), MemoryJobs(JOB)

    await jobs_of(worker, store, parked).look()

    assert (parked.entries_left, list(store.replayed)) == ([], ["prk_1", "prk_2"])
    assert store.jobs[0].state is JobState.DONE


async def test_a_damaged_job_is_logged_once(worker: Worker) -> None:
    """Fault 57: the others go on."""
    store = MemoryJobs(JOB)
    store.damaged = {"job_0": "no JSON"}
    jobs = jobs_of(worker, store, MemoryParked())

    await jobs.look()
    await jobs.look()

    assert store.jobs[0].state is JobState.DONE
    assert [line["job"] for line in worker.log.events("job.unreadable")] == ["job_0"]


async def test_a_paused_job_stops_between_two_batches_and_continues(worker: Worker) -> None:
    """S1-5: nothing is noted that is not sent, and the resumed job ends with exact counts."""
    [shop] = await worker.subscribe_all("shop")
    parked = MemoryParked(*(entry(number, shop) for number in range(250)))
    store = MemoryJobs(JOB)
    store.stop_after = 1
    jobs = jobs_of(worker, store, parked)

    await jobs.look()
    assert (len(store.replayed), len(parked.entries_left)) == (100, 150)
    store.stop_after = 10_000
    await jobs.look()

    assert (len(store.replayed), parked.entries_left) == (250, [])
    assert store.jobs[0].state is JobState.DONE


async def test_a_slow_job_keeps_its_rate_and_gives_the_entries_back_between_passes(worker: Worker) -> None:
    """S1-5: at one entry in 100 s four go in a pass; the fifth waits without the entries in hand."""
    [shop] = await worker.subscribe_all("shop")
    parked = MemoryParked(*(entry(number, shop) for number in range(6)))
    store = MemoryJobs(replace(JOB, rate_per_s=0.01))
    jobs, began = jobs_of(worker, store, parked), worker.clock.monotonic()

    await jobs.look()
    assert (len(store.replayed), worker.clock.monotonic() - began) == (4, 300 + REST_S)
    await jobs.look()
    assert (len(store.replayed), parked.are_in_hand) == (4, False)
    await worker.clock.advance(100 - REST_S)
    await jobs.look()

    assert (len(store.replayed), store.jobs[0].state) == (6, JobState.DONE)
    assert worker.clock.monotonic() - began == 500


async def test_a_slow_job_notices_a_pause_within_a_second(worker: Worker) -> None:
    """S1-5: it does not hold the entries until its next turn."""
    [shop] = await worker.subscribe_all("shop")
    parked = MemoryParked(entry(1, shop), entry(2, shop))
    store = MemoryJobs(replace(JOB, rate_per_s=0.01))
    looking = asyncio.create_task(jobs_of(worker, store, parked).look())
    await worker.clock.advance(10)
    assert parked.are_in_hand

    store.jobs = [replace(JOB, state=JobState.PAUSED)]
    await worker.clock.advance(LOOK_S)

    assert (parked.are_in_hand, list(store.replayed)) == (False, ["prk_1"])
    await looking


async def test_a_job_waits_while_a_command_has_the_entries_in_hand(worker: Worker) -> None:
    """S1-5: it stays running, and shows the reason for its wait."""
    parked, store = MemoryParked(), MemoryJobs(JOB)
    parked.failure = BrokerUnavailable("in use by `leveret parked show`")

    await jobs_of(worker, store, parked).look()

    assert (store.jobs[0].state, store.detail) == (JobState.RUNNING, "waits: in use by `leveret parked show`")


async def test_an_automatic_replay_takes_only_closed_endpoints_and_informs_operators(worker: Worker) -> None:
    """S1-16: retryable, rarely replayed, parked for the cooldown, breaker closed; then one event."""
    shop, down = await worker.subscribe_all("shop", "down")
    worker.endpoints.force(down)
    parked = MemoryParked(
        entry(1, shop),
        entry(2, down),
        entry(3, shop, reason=ParkReason.PERMANENT),
        entry(4, shop, parked_at=START - 60),
    )
    store, notes = MemoryJobs(), list[str]()
    worker.context.observe.notes.add(lambda note: notes.append(f"{note.type.value}: {note.reason}"))
    jobs = jobs_of(worker, store, parked, AutoReplay(cooldown_s=600, rate_per_s=100))

    await jobs.look()
    await jobs.look()  # the next one is due after the cooldown

    assert list(store.replayed) == ["prk_1"]
    assert len(store.jobs) == 1
    assert notes == [f"parked.replayed: automatic replay {store.jobs[0].id}: 1 entries"]


async def test_a_dry_worker_replays_nothing_without_an_operator(worker: Worker) -> None:
    """S0-8: such a replay would count undelivered entries as delivered; an operator may ask for it."""
    [shop] = await worker.subscribe_all("shop")
    parked, automatic = MemoryParked(entry(1, shop)), replace(JOB, origin=Origin.AUTOMATIC)
    store = MemoryJobs(automatic)
    settings = ParkedSettings(auto_replay=True, scheduled_replay_s=60)
    jobs = jobs_of(worker, store, parked, settings.rules(is_dry=True))

    await jobs.look()
    assert (store.jobs, store.replayed) == ([automatic], {})

    await store.add(replace(JOB, id="job_2"))
    await jobs.look()
    assert list(store.replayed) == ["prk_1"]


async def test_only_the_leading_worker_works(worker: Worker) -> None:
    """Two workers do not take one job."""
    store = MemoryJobs(JOB)
    places = JobPlaces(jobs=store, parked=MemoryParked(), worker="w2", leads=lambda: False)

    await ReplayJobs(
        worker.context, worker.subscriptions, worker.endpoints, places, AutoReplay(scheduled_s=60)
    ).look()

    assert store.jobs == [JOB]
