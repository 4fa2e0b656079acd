"""5,000 retries of one tenant come due at once; a quiet tenant keeps publishing.

The worker is stopped (SIGSTOP) while they fall due, so that all of them wait when it goes on, warm. The two
tenants have receivers of their own: the quiet one's is not to be busy with the other's requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.fairness.field import Trickle, events_of, quantile
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import publish, ready_counts
from tests.support.processes.children import wait_until
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

RETRIES = 5_000
ROUNDS = 3
EVERY_S = 0.02
ALONE_EVENTS = 300
STORM_EVENTS = 250
RUNG_S = 20.0
WAIT_S = 27.0  #: of the retries: the rung below takes them all, even those stored some seconds late
ARRIVE_S = 60.0  #: first attempts, and retries, have to be made within this
STOPPED_S = 50.0  #: less than two heartbeats
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "256", "LEVERET_AMQP__HEARTBEAT_S": "60"}
WINDOWS = 4 * 256  #: messages of the due queues that the worker has in hand, and its socket
RUNG = f"leveret.wait.{RUNG_S * 1000:.0f}"
DUE = [f"leveret.due.{index:02d}" for index in range(4)]

FACTOR, MARGIN_MS = 1.5, 30.0
GOALS = (Goal(name="storm_p95_ms", text="≤ max(1.5 x alone, alone + 30 ms)", unit="ms", n=ALONE_EVENTS),)


async def quiet(broker: Broker, sink: Sink, count: int, prefix: str) -> list[float]:
    """Publish *count* events of the quiet tenant on time; return their waits in milliseconds."""
    trickle = Trickle(broker.url, events_of("quiet", count, prefix, size=200), EVERY_S)
    await trickle.run()
    return [wait.took_s * 1000 for wait in await trickle.waits(sink, "quiet")]


async def stored(broker: Broker, count: int) -> None:
    """Return once all retries wait in their rung, so that none of them is under way.

    Raises:
        TimeoutError: the first of them fell due before the last one was stored.
    """
    deadline = time.monotonic() + RUNG_S
    while (await ready_counts(broker.url, [RUNG]))[RUNG] < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} retries were not stored within {RUNG_S:g} s")
        await asyncio.sleep(0.1)


async def fallen_due(broker: Broker, count: int) -> int:
    """Return, once all retries are due, how many are ready in the due queues; windows hold the rest.

    Raises:
        TimeoutError: they did not come there in time.
    """
    began = time.monotonic()
    while True:
        counts = await ready_counts(broker.url, [RUNG, *DUE])
        ready, passed_s = sum(counts[name] for name in DUE), time.monotonic() - began
        if passed_s >= WAIT_S and counts[RUNG] == 0 and ready >= count - WINDOWS:
            return ready
        if passed_s > STOPPED_S:
            raise TimeoutError(f"the retries were not due within {STOPPED_S:g} s: {counts}")
        await asyncio.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Storms:
    """Lets retries fall due while the worker is stopped, and watches the quiet tenant after that."""

    bench: Bench
    broker: Broker
    nginx: Nginx
    sink: Sink
    daemon: Daemon

    async def one(self, number: int) -> list[float]:
        """Return the waits of the quiet tenant in milliseconds."""
        count = self.bench.count(RETRIES, 100)
        served = self.nginx.served()
        self.nginx.ill(ill=True)
        await publish(self.broker.url, events_of("storm", count, f"storm{number}"))
        await self.until_served(served + count)
        self.nginx.ill(ill=False)
        await stored(self.broker, count)
        self.daemon.suspend()
        try:
            ready = await fallen_due(self.broker, count)
        finally:
            self.daemon.wake()
        waits = await quiet(self.broker, self.sink, self.bench.count(STORM_EVENTS, 20), f"beside{number}")
        await self.until_served(served + 2 * count)
        self.bench.say(f"storm {number}: {ready} due, p95 {quantile(waits, 0.95):.1f} ms")
        return waits

    async def until_served(self, count: int) -> None:
        """Return once the storm's endpoint answered so many requests.

        Raises:
            TimeoutError: it did not.
        """
        if not await wait_until(lambda: self.nginx.served() >= count, ARRIVE_S):
            raise TimeoutError(f"{self.nginx.served()} of {count} requests were made within {ARRIVE_S:g} s")


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure the quiet tenant alone, then in storms."""
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Sink(bench.folder, {"quiet": "/ok/quiet"}) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        noisy = subscription(
            "storm",
            nginx.url("ill/storm"),
            concurrency=256,
            retry=retry(base_s=WAIT_S, jitter=0),
            breaker=NO_BREAKER,
        )
        other = subscription("quiet", sink.url("quiet"))
        await daemon.subscribe([noisy | {"tenant": "storm"}, other | {"tenant": "quiet"}])
        await daemon.start()
        await quiet(broker, sink, bench.count(100, 20), "warm")
        alone = await quiet(broker, sink, bench.count(ALONE_EVENTS, 20), "alone")
        storms = Storms(bench, broker, nginx, sink, daemon)
        beside = [wait for number in range(bench.count(ROUNDS)) for wait in await storms.one(number)]
    base, p95 = quantile(alone, 0.95), quantile(beside, 0.95)
    bound = max(FACTOR * base, base + MARGIN_MS)
    bench.note("storm_alone_p95_ms", round(base, 1))
    n = min(len(alone), len(beside))
    return [Measured(name="storm_p95_ms", value=round(p95, 1), n=n, goal=f"≤ {bound:.1f}")]


PROOF = Proof("storm", GOALS, prove)
