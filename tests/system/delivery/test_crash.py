"""kill -9 in every window: nothing is lost, and repeats have the same id."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.edges.process.failpoints import FAILPOINTS
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, deliveries, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import PATIENCE_S, until

MANY = {**QUICK, "max_attempts": 30}
EVENTS = 40
SLOTS = 4
IN_HAND = 4 * SLOTS  #: started, and settled but unknown to the broker, for longer on a busy machine


@pytest.mark.parametrize("window", FAILPOINTS)
async def test_killed_at_each_window(vhost: str, tmp_path: Path, receiver: Receiver, window: str) -> None:
    """Faults 57, 10: killed in *window* and started again: each event arrives at each endpoint.

    Duplicates carry the same id and body, and there are no more of them than were in hand.
    """
    daemon = Daemon(tmp_path, vhost, {"LEVERET_SENDING__CONCURRENCY": str(SLOTS)})
    targets = ("/slow/one?s=0.04", "/ok/two", "/flaky/crash?share=0.3")
    await daemon.apply(*(to(receiver, t, "t", retry=dict(MANY), breaker=dict(BREAKER_OFF)) for t in targets))
    try:
        await daemon.start(f"{window}:4")
        async with EventPublisher(vhost) as publisher:
            ids = await publisher.publish_many("t", EVENTS)
        assert await daemon.wait_exit(PATIENCE_S) == -9
        await daemon.start()

        found = {target: await all_delivered(receiver, target, ids) for target in targets}
        await until(lambda: daemon.metric("leveret_requests_in_flight") == 0, "nothing in flight")
        assert await daemon.stop() == 0
    finally:
        await daemon.__aexit__()

    for target in targets:
        assert found[target].keys() == set(ids)
        counts = deliveries(receiver, target)
        assert max(counts.values()) <= 2
        assert sum(counts.values()) - EVENTS <= IN_HAND
    bodies = {(r.webhook_id, r.body) for r in receiver.requests}
    assert len({event_id for event_id, _ in bodies}) == EVENTS
    assert daemon.count("delivery.parked") == 0


async def test_killed_amid_a_wide_fan_out(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 72: an event with 600 subscribers, killed in the middle: every one gets it, with one id."""
    daemon = Daemon(tmp_path, vhost)
    targets = [f"/ok/wide/{index}" for index in range(600)]
    await daemon.apply(*(to(receiver, target, "wide") for target in targets))
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("wide")
        await receiver.arrived(150)
        await daemon.kill()
        await daemon.start()

        await until(lambda: len({r.target for r in receiver.requests}) == 600, "600 endpoints")
    finally:
        await daemon.__aexit__()

    assert {r.webhook_id for r in receiver.requests} == {event_id}


async def test_a_blocked_loop_is_seen_and_survived(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 74: a stop of over 2 s shows in ``loop_lag_seconds``; no connection is lost."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/still", "still"))
        first = await publisher.publish("still")
        await all_delivered(receiver, "/ok/still", [first])
        daemon.suspend()
        behind = await publisher.publish_many("still", 20)
        with pytest.raises(AssertionError):
            await until(lambda: len(deliveries(receiver, "/ok/still")) > 1, "nothing", 2.5)

        daemon.wake()

        await until(lambda: daemon.metric("leveret_loop_lag_seconds") > 1, "the lag shows")
        found = await all_delivered(receiver, "/ok/still", [first, *behind])
        assert set(found.values()) == {1}
        assert daemon.count("broker.lost") == 0
