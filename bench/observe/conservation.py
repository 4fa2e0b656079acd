"""Targets owed against targets accounted for, after ten kills of workers and a restart of the broker.

Two workers share four endpoints: one takes everything, one is slow, one refuses three of ten requests, and
one refuses all, so that its deliveries are parked. The workers are killed in turn amid their work. At the
end nothing waits, and the books of both workers are compared with the receivers and the parked queue.

To show that the books would see a loss, the broker then loses messages on purpose: a rung is purged while
deliveries wait on it. The rest of the books must grow by exactly as many, or the figure is not valid.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace

from bench.broker import Broker
from bench.observe.account import Outside, Pair, Sums, error, seen_outside, sums_of
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from consumer.core.subscription.subscription import subscription_id
from tests.support.broker.load import EventSpec, make_events, publish, purge, ready_counts, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

TARGETS = 20_000
KILLS = 10
LIFE_S = 0.5  #: longest time that a worker goes on after it began with a batch
REQUESTS = 6  #: of each event, at least: three endpoints that take it, and one that is asked three times
DOWN_S = 3.0
END_S = 900.0
LOST = 30  #: deliveries that the purge takes
LONG_S = 16.0
SMALL_RUNGS_S = (0.25, 0.5, 1.0, 2.0)
KEEP = "leveret.parked"

ENDPOINTS = {
    "healthy": "/ok/healthy",
    "slow": "/slow/slow?s=0.1",
    "flaky": "/flaky/flaky?share=0.3",
    "dead": "/status/503/dead",
}
WAITS = {"waits": "/status/503/waits"}  #: of a tenant of its own; its first retry waits LONG_S
WAITS_TENANT = "t01"

SETTINGS = {
    "LEVERET_TOPOLOGY__RUNGS_S": str([*SMALL_RUNGS_S, LONG_S]),
    "LEVERET_TOPOLOGY__LANES": "4",
}

GOALS = (Goal(name="conservation_error", text="0", unit="targets", n=TARGETS),)


@dataclass(slots=True)
class Stage:
    """Two workers with one home, so with one store, their broker and the endpoints."""

    bench: Bench
    broker: Broker
    sink: Sink
    daemons: Sequence[Daemon]

    async def start(self) -> None:
        """Subscribe, and start both workers."""
        often = {"max_attempts": 12, "base_s": 0.25, "multiplier": 1, "max_s": 0.25, "jitter": 0}
        policies = {"dead": retry(**often | {"max_attempts": 3}), "waits": _once_after(LONG_S + 1)}
        await self.daemons[0].subscribe(
            [
                subscription(
                    name,
                    self.sink.url(name),
                    retry=policies.get(name, retry(**often)),
                    breaker=NO_BREAKER,
                    tenant=WAITS_TENANT if name in WAITS else "t00",
                )
                for name in (*ENDPOINTS, *WAITS)
            ]
        )
        await asyncio.gather(*(_started(daemon) for daemon in self.daemons))

    async def live_and_die(self, batches: Sequence[Sequence[EventSpec]]) -> int:
        """Publish each batch, and kill a worker amid it, both in turn; return the kills under load.

        The broker is killed and started again once, in the middle.
        """
        counted = 0
        for number, batch in enumerate(batches):
            daemon = self.daemons[number % len(self.daemons)]
            load = asyncio.create_task(publish(self.broker.url, batch))
            counted += await self._kill(daemon, len(batch))
            await load
            self.bench.say(f"kill {number + 1} of {len(batches)}")
            await _started(daemon)
            if number == len(batches) // 2 and not self.bench.amqp_url:
                await self.broker.kill()
                await asyncio.sleep(DOWN_S)
                await self.broker.start()
                self.bench.say("the broker is back")
        return counted

    async def _kill(self, daemon: Daemon, events: int) -> bool:
        """Kill a worker while *events* are worked off; return whether more of them were left."""
        before = await self.sink.answered()
        await self.sink.until_answered(before + events // 4, END_S)
        await asyncio.sleep(random.uniform(0.0, LIFE_S))
        await daemon.kill()
        return await self.sink.answered() - before < events * REQUESTS

    async def drained(self) -> bool:
        """Return whether every queue but the parked one became empty."""
        return await wait_empty(self.broker.management, keep=[KEEP], timeout_s=END_S)

    async def parked(self) -> Sequence[Pair]:
        """Return the parked deliveries."""
        names = {subscription_id("t00", name): name for name in ENDPOINTS}
        rows = await self.daemons[0].listing("parked", "list")
        return [(str(row["event_id"]), names[str(row["subscription_id"])]) for row in rows]

    async def lose(self) -> int:
        """Let the broker lose deliveries that wait; return how many."""
        events = [replace(event, tenant=WAITS_TENANT) for event in make_events("lost", LOST)]
        rung = f"leveret.wait.{int(LONG_S * 1000)}"
        before = await self.sink.answered()
        await publish(self.broker.url, events)
        await self.sink.until_answered(before + LOST, LONG_S)
        deadline = time.monotonic() + LONG_S / 2
        while (count := (await ready_counts(self.broker.url, [rung]))[rung]) < LOST:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        await purge(self.broker.url, [rung])
        return count


async def _started(daemon: Daemon) -> None:
    """Start a worker, however busy the machine is.

    Raises:
        TimeoutError: it is not ready within :data:`END_S`.
    """
    try:
        await daemon.start()
    except TimeoutError:
        async with asyncio.timeout(END_S):
            while not await asyncio.to_thread(daemon.ready):  # noqa: ASYNC110 (a port sets no event)
                await asyncio.sleep(1.0)


def _once_after(wait_s: float) -> dict[str, object]:
    return retry(max_attempts=2, base_s=wait_s, max_s=wait_s, jitter=0)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish, kill, drain, compare; then lose messages on purpose, and compare again."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(bench))
        sink = await stack.enter_async_context(Sink(bench.folder, ENDPOINTS | WAITS))
        one = await stack.enter_async_context(Daemon(bench.folder, broker.url, SETTINGS, "one"))
        shared = SETTINGS | {"LEVERET_HOME": str(one.home)}
        two = await stack.enter_async_context(Daemon(bench.folder, broker.url, shared, "two"))
        stage = Stage(bench, broker, sink, (one, two))
        await stage.start()
        events = make_events("con", bench.count(TARGETS // len(ENDPOINTS), 160), size=300)
        kills = bench.count(KILLS)
        batches = [events[number::kills] for number in range(kills)]
        counted = await stage.live_and_die(batches)
        empty = await stage.drained()
        owed = [(event.id, name) for event in events for name in ENDPOINTS]
        parked = await stage.parked()
        sums, outside = await sums_of(stage.daemons), seen_outside(owed, sink.read(), parked)
        lost = await stage.lose()
        empty = empty and await stage.drained()
        after = await sums_of(stage.daemons)
    return [_measured(bench, (sums, after), outside, lost, is_whole=empty and counted == kills)]


def _measured(
    bench: Bench, books: tuple[Sums, Sums], outside: Outside, lost: int, *, is_whole: bool
) -> Measured:
    """Return the figure; valid only if the books saw the messages that were lost on purpose."""
    sums, after = books
    rest, rest_after = sums.rest(waiting=0), after.rest(waiting=0)
    bench.note("conservation_books", asdict(sums))
    bench.note("conservation_outside", asdict(outside))
    bench.note("conservation_rest", rest)
    bench.note("conservation_lost_on_purpose", lost)
    bench.note("conservation_rest_after", rest_after)
    bench.note("conservation_whole", is_whole)
    sees_loss = lost > 0 and rest_after - rest == lost
    return Measured(
        name="conservation_error",
        value=error(sums, outside, waiting=0),
        n=sums.owed - sums.owed_again,
        valid=is_whole and sees_loss and sums.in_flight == 0,
    )


PROOF = Proof("conservation", GOALS, prove)
