"""Legs of a race: events are loaded without a consumer, then one contender drains them.

Both contenders read the same lanes, filled the same way, and send to the same nginx, whose log is the clock.
In :mod:`bench.core.turns` each contender has lanes of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.bare_loop import Job, run_leg
from bench.broker import Broker
from bench.nginx import Nginx
from bench.prove import Bench
from tests.support.broker.load import EventSpec, publish, purge, ready_counts
from tests.support.processes.daemon import Daemon

LEG_S = 300.0  #: no leg takes longer
EXIT_S = 40.0

Leg = Callable[[], Awaitable[float]]


@dataclass(slots=True)
class Track:
    """Where a daemon drains events."""

    bench: Bench
    broker: Broker
    nginx: Nginx
    daemon: Daemon
    prefix: str = "leveret"  #: of the daemon's topology

    async def queues(self, word: str = "") -> list[str]:
        """Return the names of this topology's queues, or only those of one kind, such as ``lane``."""
        start = f"{self.prefix}.{word}"
        return [name for name in self.broker.management.queue_names() if name.startswith(start)]

    async def lay_out(self) -> None:
        """Let the daemon declare its topology once, and stop it."""
        await self.daemon.start()
        await self.halt()

    async def halt(self) -> None:
        """Stop the daemon as an operator would.

        Raises:
            RuntimeError: it did not exit with 0.
        """
        self.daemon.terminate()
        code = await self.daemon.wait_exit(EXIT_S)
        if code != 0:
            raise RuntimeError(f"the daemon ended with {code} after SIGTERM: {self.daemon.tail()}")

    async def lanes(self) -> dict[str, int]:
        """Return how many events are ready in each lane."""
        return await ready_counts(self.broker.url, await self.queues("lane"))

    async def empty(self) -> None:
        """Empty every queue."""
        control = f"{self.prefix}.control."  # such a queue goes with its worker
        await purge(self.broker.url, [n for n in await self.queues() if not n.startswith(control)])

    async def load(self, events: Sequence[EventSpec]) -> list[str]:
        """Empty every queue, put *events* into the lanes, and return the lanes that hold any."""
        await self.empty()
        await publish(self.broker.url, events, f"{self.prefix}.events")
        return await self.loaded(len(events))

    async def loaded(self, count: int) -> list[str]:
        """Return the lanes that hold any event.

        Raises:
            RuntimeError: they do not hold *count* together.
        """
        counts = await self.lanes()
        if sum(counts.values()) != count:
            raise RuntimeError(f"{sum(counts.values())} of {count} events are in the lanes")
        return [name for name, held in counts.items() if held]

    async def run_daemon(self, events: Sequence[EventSpec], requests: int) -> float:
        """Let the daemon drain *events*; return requests a second."""
        await self.load(events)
        mark = self.nginx.mark()
        await self.daemon.start()
        rate = await self.nginx.wait_for(mark, requests, LEG_S)
        await self.halt()
        return rate

    async def run_bare(
        self, events: Sequence[EventSpec], targets: Sequence[tuple[str, str]], prefetch: int
    ) -> float:
        """Let the bare loop drain *events*; return requests a second."""
        lanes = await self.load(events)
        job = Job(
            mode="loop",
            amqp_url=self.broker.url,
            queues=lanes,
            targets=targets,
            prefetch=prefetch,
            wanted=len(events),
        )
        mark = self.nginx.mark()
        await run_leg(job, self.bench.folder, LEG_S)
        return await self.nginx.wait_for(mark, len(events) * len(targets), LEG_S)

    async def run_raw(
        self, mode: str, events: Sequence[EventSpec], target: tuple[str, str], prefetch: int
    ) -> float:
        """Let the bare loop only consume and ack, or only sign and POST; return events a second."""
        lanes = await self.load(events) if mode == "consume" else []
        job = Job(
            mode=mode,
            amqp_url=self.broker.url,
            queues=lanes,
            targets=[target],
            prefetch=prefetch,
            wanted=len(events),
            body=events[0].body.decode(),
        )
        return (await run_leg(job, self.bench.folder, LEG_S))["rate"]


async def race(bench: Bench, label: str, ours: Leg, theirs: Leg, blocks: int) -> float:
    """Run *blocks* of ours, theirs, theirs, ours and return the median of the pair ratios ours / theirs.

    The order takes out a drift of the machine; each block gives two pairs of neighbours.
    """
    ratios: list[float] = []
    rates: Mapping[str, list[float]] = {"ours": [], "theirs": []}
    for block in range(blocks):
        a1, b1 = await ours(), await theirs()
        b2, a2 = await theirs(), await ours()
        ratios += [a1 / b1, a2 / b2]
        rates["ours"] += [a1, a2]
        rates["theirs"] += [b1, b2]
        bench.say(f"{label} {block + 1}/{blocks}: {a1:.0f} {b1:.0f} {b2:.0f} {a2:.0f} per s")
    bench.note(f"{label}_per_s", {name: round(statistics.median(found), 1) for name, found in rates.items()})
    bench.note(f"{label}_ratios", [round(ratio, 3) for ratio in ratios])
    return statistics.median(ratios)
