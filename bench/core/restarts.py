"""Fifty restarts by kill -9 over full lanes: the messages of the windows are innocent, and none is parked.

Every kill gives back all that the worker held, so the same messages come again and again, and from the fifth
time on by way of suspect (fault 70).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

KILLS = 50
EVENTS = 5_000
WINDOW = 300  #: messages that a worker holds of the lanes
SLOTS = 4
ANSWER_S = 0.05
WORKS = 3  #: requests that a life makes before it may end
LIFE_S = 1.0  #: the longest that a life goes on after that
LIFE_WITHIN_S = 60.0
MOST_SENT = 8  #: Source: fault 70
END_S = 400.0
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_WINDOWS__LANE_PREFETCH": str(WINDOW // 2),
    "LEVERET_SENDING__CONCURRENCY": str(SLOTS),
}

GOALS = (
    Goal(name="restarts_parked", text="0", unit="entries", n=KILLS),
    Goal(name="restarts_lost", text="0", unit="events", n=KILLS),
    Goal(name="restarts_most_sent", text=f"≤ {MOST_SENT}", unit="requests", n=KILLS),
)


async def one_life(bench: Bench, daemon: Daemon, sink: Sink, waiting: int) -> bool:
    """Start the daemon, kill it at work; return whether the lanes held more than its window all the while.

    Args:
        bench: Prints the faults.
        daemon: Not running.
        sink: Where its requests go.
        waiting: Events that were published, all of them before the first life.
    """
    before = await sink.answered()
    await daemon.start()
    worked = await sink.until_answered(before + WORKS, LIFE_WITHIN_S)
    await asyncio.sleep(random.uniform(0.0, LIFE_S))
    await daemon.kill()
    full = waiting - await sink.answered() > WINDOW
    if not (worked and full):
        bench.say(f"a kill that does not count: at work {worked}, lanes full {full}")
    return worked and full


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish, kill over and over, deliver the rest, count."""
    kills, events = bench.count(KILLS), make_events("rst", bench.count(EVENTS, 600))
    counted = 0
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"slow": f"/slow/slow?s={ANSWER_S:g}"}) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        await daemon.subscribe(
            [subscription("slow", sink.url("slow"), retry=retry(), breaker=NO_BREAKER, concurrency=64)]
        )
        await daemon.cli("topology", "apply")
        await publish(broker.url, events)
        for number in range(kills):
            counted += await one_life(bench, daemon, sink, len(events))
            if number % 10 == 9:
                bench.say(f"{number + 1} of {kills} kills")
        await daemon.start()
        empty = await wait_empty(broker.management, keep=["leveret.parked"], timeout_s=END_S)
        parked = await daemon.listing("parked", "list")
        seen = sink.read()
    sent = Counter(one.id for one in seen)
    suspected = sum(1 for _ in daemon.lines("message.suspected"))
    bench.note("restarts_suspected", suspected)
    bench.note("restarts_duplicates", sum(sent.values()) - len(sent))
    bench.note("restarts_parked_examples", [(row["event_id"], row["reason"]) for row in parked][:10])
    return [
        Measured(name="restarts_parked", value=len(parked), n=counted, valid=empty and suspected > 0),
        Measured(
            name="restarts_lost",
            value=len({event.id for event in events} - sent.keys()),
            n=counted,
            valid=empty,
        ),
        Measured(name="restarts_most_sent", value=max(sent.values(), default=0), n=counted, valid=empty),
    ]


PROOF = Proof("restarts", GOALS, prove)
