"""Every cancelled delivery is in the archive, whether the daemon or a command cancels it.

Half of them wait for a subscription that is removed: the worker cancels them as they come up. The other half
is called off with ``leveret waiting cancel``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import yaml

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

EACH = 300
WAIT_S = 20.0  #: longer than it takes to fail all and to remove the subscription
END_S = 120.0

GOALS = (Goal(name="unarchived", text="0", unit="deliveries", n=2 * EACH),)

RETRY = {"max_attempts": 8, "base_s": WAIT_S, "multiplier": 1, "max_s": WAIT_S, "jitter": 0}


def archived(daemon: Daemon) -> set[str]:
    """Return the events of the archived deliveries that were cancelled."""
    lines = [
        line
        for path in (daemon.home / "archive").glob("cancelled-*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    return {str(json.loads(line)["event_id"]) for line in lines}


async def remove(daemon: Daemon, left: Mapping[str, object]) -> None:
    """Remove every subscription but one."""
    path = daemon.home / "left.yaml"
    path.write_text(yaml.safe_dump({"subscriptions": [dict(left)]}), "utf-8")
    await daemon.cli("subscriptions", "apply", "--prune", "--yes", str(path))


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let both halves wait, cancel each by its method, and look into the archive."""
    count = bench.count(EACH, 10)
    targets = {name: f"/status/503?{name}" for name in ("removed", "called-off")}
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, targets) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        entries = [
            {**subscription(name, sink.url(name), retry=RETRY, breaker=NO_BREAKER), "tenant": tenant}
            for name, tenant in zip(targets, ("t00", "t01"), strict=True)
        ]
        await daemon.subscribe(entries)
        await daemon.start()
        events = make_events("cancelled", 2 * count, tenants=2, size=300)
        await publish(broker.url, events)
        tried = await sink.until_answered(len(events), END_S)
        await remove(daemon, entries[1])
        await daemon.cli("waiting", "cancel", "--tenant", "t01", "--yes")
        empty = await wait_empty(broker.management, timeout_s=END_S)
        missing = {event.id for event in events} - archived(daemon)
    bench.note("unarchived_examples", sorted(missing)[:5])
    return [Measured(name="unarchived", value=len(missing), n=len(events), valid=tried and empty)]


PROOF = Proof("cancelled", GOALS, prove)
