"""Faults in a cluster of three nodes under a steady load: nothing is lost, doubled without cause, or stuck.

A pair is an event and a subscription. Each pair is a chain of requests whose due times are known, as the
schedule has no jitter. A chain is stalled from its due time until its next request.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bench.loop.steady import Published, Steady, chains_of, overlap_s
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.node import Node
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

FAULTS = 8
SHARE = 0.2  #: of all attempts fail
SCHEDULE_S = (2.0, 4.0, 8.0, 3.0, 6.0)  #: waits after each failed attempt, without jitter; the last repeats
AWAY_S = 100.0  #: longer than the longest stall that the goal allows
BOTH_AWAY_S = 120.0
PARTED_S = 60.0
REST_S = 25.0  #: between a fault's end and the next fault
UNREST_S = 15.0  #: after a change, channels may still close and their unacked messages come again
BEFORE_S = 1.0  #: requests shortly before a change may not be settled at it
END_S = 240.0
FREE_EVERY_S = 15.0  #: the cure of 3.10 runs this often on each node

GOALS = (
    Goal(name="cluster_lost", text="0", unit="pairs", n=FAULTS),
    Goal(name="cluster_doubled_unexplained", text="0", unit="deliveries", n=FAULTS),
    Goal(name="cluster_stalled_s", text="≤ 90", unit="s", n=FAULTS),
)
TARGETS = {"healthy": "/ok/healthy", "flaky": f"/flaky/flaky?share={SHARE}"}
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "4",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, 60.0]",
}


@dataclass(slots=True)
class Record:
    """The times of the run, in Unix seconds."""

    faults: int = 0
    changes: list[float] = field(default_factory=list)  #: each kill, cut, return and healing
    leaderless: list[tuple[float, float]] = field(default_factory=list)  #: fewer than two nodes were together
    freed: Counter[str] = field(default_factory=Counter)

    def change(self) -> float:
        """Note that the cluster changes now."""
        now = time.time()
        self.changes.append(now)
        return now

    def unrest(self) -> list[tuple[float, float]]:
        """Return the spans in which the unacked messages of a closed channel may have come again."""
        return [(at - BEFORE_S, at + UNREST_S) for at in self.changes] + [
            (start - BEFORE_S, end + UNREST_S) for start, end in self.leaderless
        ]


Fault = Callable[[Bench, Cluster, Record], Awaitable[None]]


async def kill(bench: Bench, cluster: Cluster, record: Record, node: Node) -> None:
    """SIGKILL one node, and start it again later."""
    record.change()
    await node.kill()
    await asyncio.sleep(AWAY_S * bench.scale)
    record.change()
    await cluster.start(node)
    record.change()


def kill_number(index: int) -> Fault:
    """Return the fault that kills the node with this index."""
    return lambda bench, cluster, record: kill(bench, cluster, record, cluster.nodes[index])


async def kill_lane_leader(bench: Bench, cluster: Cluster, record: Record) -> None:
    """SIGKILL the node that leads the first lane."""
    await kill(bench, cluster, record, cluster.leader("leveret.lane.00"))


async def kill_due_leader(bench: Bench, cluster: Cluster, record: Record) -> None:
    """SIGKILL the node that leads a due queue, the target of every rung."""
    await kill(bench, cluster, record, cluster.leader("leveret.due.00"))


async def kill_two(bench: Bench, cluster: Cluster, record: Record) -> None:
    """SIGKILL two nodes; no queue has a quorum until they are back."""
    pair = cluster.nodes[1:]
    start = record.change()
    for node in pair:
        await node.kill()
    await asyncio.sleep(BOTH_AWAY_S * bench.scale)
    await cluster.start(*pair)
    record.leaderless.append((start, record.change()))


async def part(bench: Bench, cluster: Cluster, record: Record, node: Node, *, clients: bool) -> None:
    """Cut *node* off from the other nodes, and with *clients* from its clients too; then heal it."""
    record.change()
    node.place.unplug()
    if clients:
        node.place.shut_out()
    await asyncio.sleep(PARTED_S * bench.scale)
    node.place.plug()
    if clients:
        node.place.let_in()
    start = record.change()
    await asyncio.sleep(5)
    await node.wait_ready()  # a node that paused starts its applications again
    bench.say(f"healed, ready after {record.change() - start:.1f} s")


async def part_first(bench: Bench, cluster: Cluster, record: Record) -> None:
    """Cut off the first node, at which the worker usually is; its clients still reach it."""
    await part(bench, cluster, record, cluster.nodes[0], clients=False)


async def part_leader(bench: Bench, cluster: Cluster, record: Record) -> None:
    """Cut off the leader of the first lane, from its clients too."""
    await part(bench, cluster, record, cluster.leader("leveret.lane.00"), clients=True)


ALL: Mapping[str, Fault] = {
    "kill the first node": kill_number(0),
    "kill the second node": kill_number(1),
    "kill the third node": kill_number(2),
    "kill a lane's leader": kill_lane_leader,
    "kill a due queue's leader": kill_due_leader,
    "kill two nodes": kill_two,
    "part the first node from the others": part_first,
    "part a lane's leader from all": part_leader,
}


@asynccontextmanager
async def freeing(cluster: Cluster, record: Record) -> AsyncIterator[None]:
    """Run the cure on each node, again and again, where the server is 3.10."""

    async def loop() -> None:
        while True:
            for node in cluster.running:
                with suppress(Exception):  # the node may be killed amid the command
                    for line in (await node.free_dead_letters()).splitlines():
                        if line.startswith("freed "):
                            record.freed[line] += 1
            await asyncio.sleep(FREE_EVERY_S)

    needed = cluster.nodes[0].version().startswith("3.")
    task = asyncio.create_task(loop()) if needed else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def make_faults(bench: Bench, cluster: Cluster, record: Record) -> None:
    """Make each fault, with a rest behind it."""
    for name, fault in ALL.items():
        bench.say(name)
        await fault(bench, cluster, record)
        record.faults += 1
        await asyncio.sleep(REST_S)


async def until_delivered(sink: Sink, published: Published) -> None:
    """Wait until every pair has a success, and then for stray ones; or until time is up."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        await asyncio.sleep(5)
        done = {(one.id, one.path) for one in sink.read() if 200 <= one.status < 300}
        if all((event, name) in done for event in published.confirmed for name in TARGETS):
            break
    await asyncio.sleep(15)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Load, faults, books."""
    record = Record()
    async with (
        Cluster(bench.folder) as cluster,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, cluster.urls, SETTINGS) as daemon,
    ):
        bench.notes["rabbitmq"] = cluster.nodes[0].version()
        policy = {"max_attempts": 40, "schedule_s": list(SCHEDULE_S), "jitter": 0}
        subscriptions = [
            subscription(name, sink.url(name), retry=policy, breaker=NO_BREAKER, concurrency=64)
            for name in TARGETS
        ]
        await daemon.subscribe(subscriptions)
        await daemon.start()
        steady = Steady(cluster, "clu")
        load = asyncio.create_task(steady.run())
        async with freeing(cluster, record):
            await asyncio.sleep(10)
            await make_faults(bench, cluster, record)
            steady.finish()
            await load
            await until_delivered(sink, steady.published)
        parked = await daemon.listing("parked", "list")
        seen = sink.read()
    bench.note("cluster_freed", dict(record.freed))
    bench.note("cluster_parked", len(parked))
    return judge(bench, record, steady.published, seen, {str(row["event_id"]) for row in parked})


def judge(
    bench: Bench, record: Record, published: Published, seen: Sequence[Seen], parked: set[str]
) -> list[Measured]:
    """Compare the requests with the publishes."""
    chains = chains_of(seen)
    pairs = [(event, name) for event in published.confirmed for name in TARGETS]
    lost = [
        pair
        for pair in pairs
        if pair[0] not in parked and not any(200 <= one.status < 300 for one in chains.get(pair, ()))
    ]
    unrest = record.unrest()
    doubled = {
        pair: n for pair in pairs if (n := unexplained(chains[pair], published.tries[pair[0]], unrest))
    }
    stalls = [
        (stalled_s(chains[pair], published.confirmed[pair[0]], record.leaderless), *pair) for pair in pairs
    ]
    bench.note("cluster_pairs", len(pairs))
    bench.note("cluster_requests", len(seen))
    bench.note("cluster_lost_examples", lost[:10])
    bench.note("cluster_doubled_examples", list(doubled.items())[:10])
    bench.note("cluster_longest_stalls", [(round(s, 1), *rest) for s, *rest in sorted(stalls)[-10:]])
    longest = round(max(stalls)[0], 1)
    return [
        Measured(name="cluster_lost", value=len(lost), n=record.faults),
        Measured(name="cluster_doubled_unexplained", value=sum(doubled.values()), n=record.faults),
        Measured(name="cluster_stalled_s", value=longest, n=record.faults),
    ]


def unexplained(chain: Sequence[Seen], tries: int, unrest: Sequence[tuple[float, float]]) -> int:
    """Return how many further successes of a pair neither the publisher nor a fault explains.

    Args:
        chain: The requests of the pair, by time.
        tries: How often the publisher sent the event; each may have arrived.
        unrest: Spans in which messages may have come again.

    Returns:
        The successes that do not follow a request within *unrest*, beyond one for each publish.
    """
    shaken = sum(overlap_s(one.began, one.ended + 0.001, unrest) > 0 for one in chain)
    successes = sum(200 <= one.status < 300 for one in chain)
    return max(0, successes - max(1, tries) - shaken)


def stalled_s(chain: Sequence[Seen], confirmed: float, leaderless: Sequence[tuple[float, float]]) -> float:
    """Return the longest time from a due time to the next request, without the time that had no quorum.

    Args:
        chain: The requests of the pair, by time.
        confirmed: When its event was confirmed: then the first request is due.
        leaderless: Spans with fewer than two nodes.
    """
    longest, due = 0.0, confirmed
    for failures, one in enumerate(chain):
        longest = max(longest, one.began - due - overlap_s(due, one.began, leaderless))
        if 200 <= one.status < 300:
            break
        due = one.ended + SCHEDULE_S[min(failures, len(SCHEDULE_S) - 1)]
    return longest


PROOF = Proof("cluster", GOALS, prove)
