"""What the sources allow a job to cost: jitter, fairness, latency without a retry, and bytes (S1-14).

The waits of a policy and the turns of tenants are timed alone; the latency is that of a whole daemon on a
real broker; the bytes are those of jobs in hand and of parked entries as messages.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

from bench.broker import Broker
from bench.fairness.field import Trickle, events_of, quantile
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from consumer.core.books import Books
from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.scheduler import Scheduler
from consumer.core.message.parked import delivery_entry_headers
from consumer.core.model import RawMessage
from consumer.core.retry.policy import POLICIES, delay_s
from consumer.flow.take.job import Job
from consumer.ports import Incoming, Source
from tests.support.builders.parked import NOTE, delivery
from tests.support.processes.daemon import Daemon, subscription

WAITS = 100_000
JOBS = 50_000
TENANTS = 100
EVENTS = 1_000
EVERY_S = 0.02
ATTEMPTS = 5
HEADERS = {"tenant": "acme", "content-type": "application/json"}

GOALS = (
    Goal(name="seed_jitter_ms", text="≤ 1", unit="ms", n=WAITS),
    Goal(name="seed_fairness_ms", text="≤ 5", unit="ms", n=JOBS),
    Goal(name="seed_p50_ms", text="≤ 50", unit="ms", n=EVENTS),
    Goal(name="seed_p95_ms", text="≤ 250", unit="ms", n=EVENTS),
    Goal(name="seed_pending_bytes", text="≤ 2048", unit="bytes", n=JOBS),
    Goal(name="seed_entry_bytes", text="≤ 3072", unit="bytes", n=1),
)


class _Nobody:
    """A ticket and a keeper that do nothing."""

    books = Books()

    def alive(self) -> bool:
        """Return True."""
        return True

    async def ack(self) -> None:
        """Do nothing."""

    async def requeue(self) -> None:
        """Do nothing."""

    async def reject(self) -> None:
        """Do nothing."""

    def recost(self, job: Job, deliveries: int) -> None:
        """Do nothing."""

    def started(self, job: Job, *, takes_slot: bool) -> None:
        """Do nothing."""

    def hold(self, job: Job, delay_s: float) -> bool:
        """Return False."""
        return False


def jitter_ms(count: int) -> float:
    """Return the mean time of one jittered wait in milliseconds."""
    policy, sample = POLICIES["email-gateway"], random.Random(1).random
    began = time.perf_counter()
    for _ in range(count):
        delay_s(policy, 3, sample())
    return (time.perf_counter() - began) / count * 1000


def jobs(count: int) -> list[Job]:
    """Return jobs in hand, of many tenants; each has an event of 200 bytes."""
    nobody = _Nobody()
    return [
        Job(
            Source.LANE,
            Incoming(
                RawMessage(
                    body=f"{number:0200}".encode(),
                    headers=dict(HEADERS),
                    exchange="leveret.events",
                    routing_key="order.created",
                    message_id=f"evt-{number}",
                ),
                nobody,
            ),
            f"t{number % TENANTS}",
            nobody,
        )
        for number in range(count)
    ]


def fairness(count: int) -> tuple[float, float]:
    """Return the mean time of a job's turn in milliseconds, and the bytes that a pending job takes."""
    tracemalloc.start()
    scheduler: Scheduler[Job] = Scheduler([1.0], Accounts(Caps(capacity=256)))
    for job in jobs(count):
        scheduler.push(0, job)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    began = time.perf_counter()
    while (popped := scheduler.pop()) is not None:
        scheduler.accounts.ended(popped)
    return (time.perf_counter() - began) / count * 1000, size / count


def entry_bytes() -> int:
    """Return the bytes of a parked entry as a message: its headers, with five attempts, and its body."""
    owed = delivery()
    owed = replace(owed, attempts=(owed.attempts * ATTEMPTS)[:ATTEMPTS], attempts_made=ATTEMPTS)
    headers = delivery_entry_headers(owed, NOTE)
    return len(owed.event.body) + sum(len(name) + len(str(value)) for name, value in headers.items())


async def latencies_ms(bench: Bench) -> list[float]:
    """Return the time from publish to request of each event, at 50 events a second."""
    count = bench.count(EVENTS, 50)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"quiet": "/ok/quiet"}) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        await daemon.subscribe([subscription("quiet", sink.url("quiet")) | {"tenant": "quiet"}])
        await daemon.start()
        warm = Trickle(broker.url, events_of("quiet", 20, "warm", size=200), EVERY_S)
        await warm.run()
        await warm.waits(sink, "quiet")
        trickle = Trickle(broker.url, events_of("quiet", count, "cost", size=200), EVERY_S)
        await trickle.run()
        return [wait.took_s * 1000 for wait in await trickle.waits(sink, "quiet")]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Time, weigh, and deliver."""
    waits, held = bench.count(WAITS, 1000), bench.count(JOBS, 1000)
    turn_ms, pending = fairness(held)
    took = await latencies_ms(bench)
    return [
        Measured(name="seed_jitter_ms", value=round(jitter_ms(waits), 4), n=waits),
        Measured(name="seed_fairness_ms", value=round(turn_ms, 4), n=held),
        Measured(name="seed_p50_ms", value=round(quantile(took, 0.5), 1), n=len(took)),
        Measured(name="seed_p95_ms", value=round(quantile(took, 0.95), 1), n=len(took)),
        Measured(name="seed_pending_bytes", value=round(pending), n=held),
        Measured(name="seed_entry_bytes", value=entry_bytes(), n=1),
    ]


PROOF = Proof("seed-costs", GOALS, prove)
