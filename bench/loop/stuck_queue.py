"""One rung loses its leader for a minute: deliveries that do not need the rung go on.

Two subscriptions see every event. ``healthy`` takes it at once. ``other`` refuses the first attempt and needs
another rung. A third tenant's deliveries need the stopped rung; they are the cause and are not measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from bench.broker import Broker
from bench.loop.steady import chains_of
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

PER_SECOND = 20  #: events each second, and for every one as many deliveries as there are subscriptions
STOPPED_S = 60.0
RUN_IN_S = 5.0
RUNG_S, OTHER_S = 4.0, 2.0  #: TTLs of the stopped rung and of the other one
MANY = 1_000
END_S = 60.0
TARGETS = {"healthy": "/ok/healthy", "other": "/flaky/other?share=0.5", "needs": "/status/503/needs"}
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "4",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0, 4.0, 8.0]",
}

GOALS = (Goal(name="stuck_queue_others_p99_ms", text="≤ 500", unit="ms", n=MANY),)


def server_of(queue: str) -> str:
    """Return the Erlang term that names the queue's Raft server on the node that evaluates it."""
    return f"{{'%2F_{queue}', node()}}"


async def publish_timed(url: str, events: Sequence[EventSpec]) -> Mapping[str, float]:
    """Publish *events* steadily; return when each was about to be published, in Unix seconds."""
    times: dict[str, float] = {}
    for start in range(0, len(events), PER_SECOND):
        began = time.monotonic()
        part = events[start : start + PER_SECOND]
        times |= dict.fromkeys((event.id for event in part), time.time())
        await publish(url, part)
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
    return times


def delays_s(seen: Sequence[Seen], published: Mapping[str, float], span: tuple[float, float]) -> list[float]:
    """Return how late each delivery's request was whose due time is within *span*."""
    chains = chains_of(seen)
    found = []
    for event, at in published.items():
        for name in ("healthy", "other"):
            due = at
            for one in chains.get((event, name), ()):
                if span[0] <= due <= span[1]:
                    found.append(one.began - due)
                due = one.ended + OTHER_S
            if (event, name) not in chains and span[0] <= at <= span[1]:
                found.append(span[1] + END_S - at)  # it never came
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Stop the rung's server, publish, start it again, and measure the deliveries that were due meanwhile."""
    stopped_s = max(10.0, STOPPED_S * bench.scale)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        other = {"max_attempts": 20, "schedule_s": [OTHER_S], "jitter": 0}
        needs = {"max_attempts": 20, "schedule_s": [RUNG_S], "jitter": 0}
        policies = {"healthy": other, "other": other, "needs": needs}
        await daemon.subscribe(
            [
                subscription(name, sink.url(name), retry=policy, breaker=NO_BREAKER, concurrency=64)
                for name, policy in policies.items()
            ]
        )
        await daemon.start()
        server = server_of(f"leveret.wait.{round(RUNG_S * 1000)}")
        events = make_events("stk", round(PER_SECOND * (RUN_IN_S + stopped_s + RUN_IN_S)))
        load = asyncio.create_task(publish_timed(broker.url, events))
        await asyncio.sleep(RUN_IN_S)
        await broker.evaluate(f"ra:stop_server(quorum_queues, {server}).")
        start = time.time()
        await asyncio.sleep(stopped_s)
        end = time.time()
        await broker.evaluate(f"ra:restart_server(quorum_queues, {server}).")
        published = await load
        await asyncio.sleep(END_S)
        seen = sink.read()
    delays = sorted(delays_s(seen, published, (start, end)))
    p99 = delays[round(0.99 * (len(delays) - 1))] * 1000
    bench.note("stuck_queue_others_p50_ms", round(delays[len(delays) // 2] * 1000))
    bench.note("stuck_queue_others_longest_ms", round(delays[-1] * 1000))
    valid = any(one.path == "needs" and start < one.began < end for one in seen)
    return [Measured(name="stuck_queue_others_p99_ms", value=round(p99), n=len(delays), valid=valid)]


PROOF = Proof("stuck_queue", GOALS, prove)
