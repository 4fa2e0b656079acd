"""Requests beyond a policy's attempts after the quorum was gone for minutes, with requests in flight.

While two of three nodes are away, no failure can be stored: the worker gives publishes up and repeats them,
and all of them may become valid when the nodes are back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import make_events, publish
from tests.support.cluster.cluster import Cluster
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

DELIVERIES = 200
ATTEMPTS = 12
WAIT_S = 4.0
ANSWER_S = 3  #: each request takes so long, so that many are in flight when the nodes end
AWAY_S = 144.0
RUN_IN_S = 10.0
END_S = 300.0
WAVE_S = 60.0  #: longest wait for the requests of half of the deliveries to be in flight together
TARGETS = {"failing": f"/slow/failing?s={ANSWER_S}&status=503"}
SETTINGS = {
    "LEVERET_AMQP__CONFIRM_LOST_S": "20",
    "LEVERET_TOPOLOGY__LANES": "4",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0, 4.0, 8.0]",
}

GOALS = (Goal(name="quorum_requests_over", text="≤ 1", unit="requests", n=DELIVERIES),)


async def until_in_flight(sink: Sink, wanted: int) -> int:
    """Wait until *wanted* requests are in flight, or for :data:`WAVE_S`; return how many are."""
    deadline = time.monotonic() + WAVE_S
    while (now := (await sink.counts()).in_flight) < wanted and time.monotonic() < deadline:  # noqa: ASYNC110 (the counts are those of another process)
        await asyncio.sleep(0.1)
    return now


async def until_ended(sink: Sink, count: int) -> None:
    """Wait until no request has come for 30 s after all have had their attempts, or until time is up."""
    deadline = time.monotonic() + END_S
    last = -1
    while time.monotonic() < deadline:
        await asyncio.sleep(30)
        seen = sink.read()
        done = sum(n >= ATTEMPTS for n in requests_of(seen).values())
        if done >= count and len(seen) == last:
            return
        last = len(seen)


def requests_of(seen: Sequence[Seen]) -> Counter[str]:
    """Return the number of requests of each event."""
    return Counter(one.id for one in seen)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Take two nodes away while requests are in flight, and count each delivery's requests at the end."""
    count = bench.count(DELIVERIES, 20)
    async with (
        Cluster(bench.folder) as cluster,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, cluster.urls, SETTINGS) as daemon,
    ):
        bench.notes["rabbitmq"] = cluster.nodes[0].version()
        policy = {"max_attempts": ATTEMPTS, "schedule_s": [WAIT_S], "jitter": 0}
        one = subscription(
            "failing", sink.url("failing"), retry=policy, breaker=NO_BREAKER, concurrency=count
        )
        await daemon.subscribe([one])
        await daemon.start()
        await publish(cluster.nodes[0].url, make_events("quo", count))
        await asyncio.sleep(RUN_IN_S)
        in_flight = await until_in_flight(sink, count // 2)
        bench.note("quorum_in_flight", in_flight)
        pair = cluster.nodes[1:]
        for node in pair:
            await node.kill()
        await asyncio.sleep(AWAY_S * bench.scale)
        await cluster.start(*pair)
        bench.say("both nodes are back")
        await until_ended(sink, count)
        parked = await daemon.listing("parked", "list")
        requests = requests_of(sink.read())
    entries = Counter(str(row["event_id"]) for row in parked)
    bench.note("quorum_requests", dict(Counter(requests.values())))
    bench.note("quorum_parked", dict(Counter(entries.values())))
    short = [event for event, number in requests.items() if number < ATTEMPTS]
    bench.note("quorum_short", short[:10])
    over = max(number - ATTEMPTS for number in requests.values())
    valid = in_flight >= count // 2 and not short and len(requests) == count and set(entries) == set(requests)
    return [Measured(name="quorum_requests_over", value=max(0, over), n=len(requests), valid=valid)]


PROOF = Proof("quorum", GOALS, prove)
