"""Kill -9 at every failpoint and at random: nothing is lost, and only events of the window come twice.

The daemon is killed again and again under a steady load of events for three subscriptions, one of which
refuses every third first attempt so that delivery messages are published all the time. Afterwards each
(event, subscription) pair has one success, and one more at most for every time that it was in the window
of a kill.

A pair is *in the window* of a kill when a request of it, or of a sibling of its event, was at the receiver
in the last :data:`WINDOW_S` before the process died: all endpoints answer at once, so older pairs
were settled long before, and a second delivery of one is unexplained. Every target is quick
here (no breaker, many slots), so the window times the quick targets is the events in it times three.
"""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import EventSpec, make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

FAILPOINTS = (
    "after-take",
    "before-publish",
    "after-publish-before-confirm",
    "after-confirm-before-ack",
    "during-request",
    "after-2xx-before-ack",
)
ROUNDS = 10  #: kills at each failpoint, and at random
KILLS = ROUNDS * (len(FAILPOINTS) + 1)
WINDOW_S = 0.5
LAG_S = 0.3  #: the receiver may read a request so long after the sender died; no new daemon is up by then
EVENTS_A_KILL = 300  #: over a second's work, so that most of a life is outside of the window of its end
PASSES = {"before-publish": 80, "after-publish-before-confirm": 80, "after-confirm-before-ack": 80}
PASSES_ELSE = 250  #: killed at a random passing up to this
KILL_WITHIN_S = 30.0  #: a failpoint that is not passed in this time does not count
END_S = 120.0
TARGETS = {"first": "/ok/first", "second": "/ok/second", "flaky": "/flaky/flaky?share=0.3"}

GOALS = (
    Goal(name="kill_worker_lost", text="0", unit="pairs", n=KILLS),
    Goal(name="kill_worker_unexplained", text="0", unit="deliveries", n=KILLS),
)

#: A short ladder and exact waits: a retry comes back in one hop, so no pair waits in a window unseen.
#: Few slots: little is in flight at a time, so the windows are small.
SETTINGS = {
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0]",
    "LEVERET_TOPOLOGY__LANES": "4",
    "LEVERET_SENDING__CONCURRENCY": "16",
}
RETRY = {"max_attempts": 12, "base_s": 0.25, "multiplier": 1, "max_s": 0.25, "jitter": 0}


@dataclass(slots=True)
class Run:
    """The actions of the harness."""

    events: list[EventSpec] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)  #: Unix seconds
    points: Counter[str] = field(default_factory=Counter)
    settled: bool = False  #: every queue was empty at the end, so nothing can still come twice


async def round_of(daemon: Daemon, point: str, events: Sequence[EventSpec], url: str) -> float | None:
    """Run the daemon until it is killed at *point* (or at random); return the time of death."""
    load = asyncio.create_task(publish(url, events))
    try:
        if point == "random":
            await daemon.start()
            await asyncio.sleep(random.uniform(0.0, 1.0))
            return await daemon.kill()
        await daemon.start(f"{point}:{random.randint(1, PASSES.get(point, PASSES_ELSE))}")
        if await daemon.wait_exit(KILL_WITHIN_S) == -9:
            return time.time()
        await daemon.kill()
        return None
    finally:
        await load


async def kill_all(bench: Bench, daemon: Daemon, url: str) -> Run:
    """Go through every failpoint, in turn, and random kills."""
    run = Run()
    points = [*FAILPOINTS, "random"] * bench.count(ROUNDS)
    for number, point in enumerate(points):
        events = make_events(f"kil_{number:03d}", EVENTS_A_KILL)
        run.events += events
        began = time.monotonic()
        died = await round_of(daemon, point, events, url)
        if died is None:
            bench.say(f"{point}: not passed within {KILL_WITHIN_S} s")
            continue
        run.kills.append(died)
        run.points[point] += 1
        if number % 7 == 0:
            bench.say(
                f"{len(run.kills)} of {len(points)} kills; this one took {time.monotonic() - began:.1f} s"
            )
    return run


async def deliver_the_rest(bench: Bench, daemon: Daemon, sink: Sink, broker: Broker) -> bool:
    """Start it once more, without a failpoint; return whether every queue became empty."""
    await daemon.start()
    keep = ["leveret.parked"]
    empty = await wait_empty(broker.management, keep=keep, timeout_s=END_S)
    bench.note("kill_worker_queues_empty", empty)
    bench.say(f"the receiver saw {await sink.answered()} requests")
    return empty


def successes(seen: Sequence[Seen]) -> Mapping[tuple[str, str], list[Seen]]:
    """Return the taken requests, per (event id, subscription)."""
    taken: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for one in seen:
        if 200 <= one.status < 300:
            taken[one.id, one.path].append(one)
    return taken


def explained(times: Sequence[float], own: Sequence[float], kills: Sequence[float]) -> int:
    """Return how many further deliveries of a pair the kills explain.

    Args:
        times: When requests of the event came to any endpoint, ascending, Unix seconds.
        own: When requests of the pair itself came, ascending.
        kills: When the daemon died, Unix seconds.

    Returns:
        For each kill in whose window the event was: the pair's requests in that window (each may be one
        of several chains), at least one.
    """
    total = 0
    for kill in kills:
        if in_window(times, kill):
            total += max(1, in_window(own, kill))
    return total


def in_window(times: Sequence[float], kill: float) -> int:
    """Return how many of *times* (ascending) are in the window of a kill."""
    return bisect_right(times, kill + LAG_S) - bisect_left(times, kill - WINDOW_S)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Kill, deliver the rest, count missing and repeated deliveries."""
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        await daemon.subscribe(
            [
                subscription(name, sink.url(name), retry=retry(**RETRY), breaker=NO_BREAKER, concurrency=256)
                for name in TARGETS
            ]
        )
        await daemon.cli("topology", "apply")
        run = await kill_all(bench, daemon, broker.url)
        run.settled = await deliver_the_rest(bench, daemon, sink, broker)
        parked = await daemon.listing("parked", "list")
        seen = sink.read()
    return balance(bench, run, seen, [str(row["event_id"]) for row in parked])


def balance(bench: Bench, run: Run, seen: Sequence[Seen], parked: Sequence[str]) -> list[Measured]:
    """Compare the requests with the published events."""
    taken = successes(seen)
    by_event: dict[str, list[float]] = defaultdict(list)
    by_pair: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.began):
        by_event[one.id].append(one.began)
        by_pair[one.id, one.path].append(one.began)
    lost = [(e.id, name) for e in run.events for name in TARGETS if (e.id, name) not in taken]
    extra = {pair: len(group) - 1 for pair, group in taken.items() if len(group) > 1}
    over = {
        pair: count - allowed
        for pair, count in extra.items()
        if count > (allowed := explained(by_event[pair[0]], by_pair[pair], run.kills))
    }
    outside = sum(not any(in_window([one.began], kill) for kill in run.kills) for one in seen)
    bench.note("kill_worker_requests_outside_windows", f"{outside} of {len(seen)}")
    bench.note("kill_worker_points", dict(run.points))
    bench.note("kill_worker_duplicates", sum(extra.values()))
    bench.note("kill_worker_oldest_duplicate_s", oldest(extra, by_event, run.kills))
    bench.note("kill_worker_parked", len(parked))
    bench.note("kill_worker_lost_examples", lost[:10])
    bench.note("kill_worker_unexplained_examples", list(over.items())[:10])
    kills = len(run.kills)
    return [
        Measured(name="kill_worker_lost", value=len(lost), n=kills),
        Measured(name="kill_worker_unexplained", value=sum(over.values()), n=kills, valid=run.settled),
    ]


def oldest(
    extra: Mapping[tuple[str, str], int], by_event: Mapping[str, Sequence[float]], kills: Sequence[float]
) -> float:
    """Return the longest time from an event's last request to the kill that doubled it, in seconds."""
    ages = [0.0]
    for event_id, _ in extra:
        before = [
            kill - max(t for t in by_event[event_id] if t <= kill)
            for kill in kills
            if by_event[event_id][0] <= kill < by_event[event_id][-1]
        ]
        ages.append(min(before, default=0.0))
    return round(max(ages), 3)


PROOF = Proof("kills", GOALS, prove)
