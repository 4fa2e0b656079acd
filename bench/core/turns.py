"""Two workers race by short turns: one is suspended while the other one runs.

Where others share the machine, a delivery takes up to twice as much processor time for a second or two, in
every worker. Legs in turn, and turns of a second, meet such times by chance; short turns meet them alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.core.legs import Track
from bench.nginx import Nginx
from bench.prove import Bench
from tests.support.broker.load import EventSpec, connect
from tests.support.processes.daemon import Daemon

TURN_S = 0.25  #: waking costs more than a tenth of a shorter one, and a second is too long: see above
LEAST_TURN_S = 0.05  #: however small the scale is
BESIDE_EVERY_S = 5.0  #: as the shipped Prometheus scrapes
WARM_UP_ROUNDS = 3  #: until the history writes: a busy worker puts its rows off for up to two seconds
PAIR_S = 300.0  #: no pair takes longer

Beside = Callable[[Daemon], Awaitable[None]]


async def nothing(_daemon: Daemon) -> None:
    """Let nothing happen beside a turn."""


@dataclass(slots=True, kw_only=True)
class Side:
    """One of the two workers, which has a topology of its own."""

    name: str  #: the first part of the path in its endpoints' URLs
    track: Track
    beside: Beside = nothing  #: happens every five seconds of its turns
    ran_s: float = 0.0
    beside_at_s: float = 0.0  #: when it happens next, in seconds of its turns

    async def take_turn(self, turn_s: float) -> None:
        """Run for *turn_s* seconds."""
        daemon, happens = self.track.daemon, self.ran_s >= self.beside_at_s
        self.beside_at_s += BESIDE_EVERY_S if happens else 0.0
        daemon.wake()
        began = time.monotonic()
        await asyncio.gather(asyncio.sleep(turn_s), (self.beside if happens else nothing)(daemon))
        daemon.suspend()
        self.ran_s += time.monotonic() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Two sides that get the same events and send to the same nginx."""

    bench: Bench
    nginx: Nginx
    sides: tuple[Side, Side]
    events: Sequence[EventSpec]  #: of a pair; more than the faster side delivers
    wanted: int  #: deliveries of a side that count in a pair, on average of the two

    async def lay_out(self) -> None:
        """Declare both topologies; the events exchange of the first passes each event on to the second."""
        first, second = (side.track for side in self.sides)
        await first.lay_out()
        await second.lay_out()
        connection = await connect(first.broker.url)
        try:
            channel = await connection.channel()
            await channel.exchange_bind(f"{second.prefix}.events", f"{first.prefix}.events", routing_key="#")
        finally:
            await connection.close()

    async def race(self, label: str, blocks: int) -> float:
        """Return the median ratio of *blocks*, first side / second side.

        A pair is one start of both sides and the turns after it. A block is two pairs, and each side begins
        one of them, so that an effect of the order cancels in their geometric mean.

        Raises:
            RuntimeError: no event was left in the lanes of a side, so it may have been idle.
        """
        first, second = self.sides
        ratios: list[float] = []
        rates: dict[str, list[float]] = {side.name: [] for side in self.sides}
        for block in range(blocks):
            for order in ((first, second), (second, first)):
                found = await self._pair(order)
                for name, rate in found.items():
                    rates[name].append(rate)
                ratios.append(found[first.name] / found[second.name])
            last = " ".join(f"{name} {found[-2]:.0f} {found[-1]:.0f}" for name, found in rates.items())
            self.bench.say(f"{label} {block + 1}/{blocks}: {last} per s")
        self.bench.note(
            f"{label}_per_s", {n: round(statistics.median(found), 1) for n, found in rates.items()}
        )
        self.bench.note(f"{label}_ratios", [round(ratio, 3) for ratio in ratios])
        return statistics.median(map(statistics.geometric_mean, zip(ratios[::2], ratios[1::2], strict=True)))

    async def _pair(self, order: Sequence[Side]) -> dict[str, float]:
        """Let both run by turns, beginning as *order* says; return deliveries a second by side.

        nginx is suspended while both start, at the same time: neither may be ahead when the turns begin.
        """
        await self._load()
        with self.nginx.suspended():
            async with asyncio.TaskGroup() as starts:
                for side in order:
                    starts.create_task(side.track.daemon.start())
            for side in order:
                side.track.daemon.suspend()
        for _ in range(WARM_UP_ROUNDS):
            await self._take_turns(order)
        for side in order:
            side.ran_s = side.beside_at_s = 0.0
        mark = self.nginx.mark()
        async with asyncio.timeout(PAIR_S):
            while self.nginx.served() - mark.served < 2 * self.wanted:
                await self._take_turns(order)
        counts = await self.nginx.served_by_path(mark)
        for side in order:
            if not sum((await side.track.lanes()).values()):
                raise RuntimeError(f"{side.name} ran out of events")
            side.track.daemon.wake()
            await side.track.halt()
        return {side.name: counts[side.name] / side.ran_s for side in order}

    async def _load(self) -> None:
        first, second = (side.track for side in self.sides)
        await second.empty()
        await first.load(self.events)
        await second.loaded(len(self.events))

    async def _take_turns(self, order: Sequence[Side]) -> None:
        turn_s = max(LEAST_TURN_S, TURN_S * min(1.0, self.bench.scale))
        for side in (*order, *reversed(order)):
            await side.take_turn(turn_s)
