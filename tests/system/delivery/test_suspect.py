"""A message that kills workers is found by evidence; its neighbours are only delayed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import BREAKER_OFF, all_delivered, deliveries, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

MOST_DEATHS = 8  #: Source: fault 70


async def test_a_message_that_kills_every_time_is_parked_as_poison(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 70: the worker dies at most 8 times of one message; then it is parked ``poison``, bytes kept."""
    daemon = Daemon(tmp_path, vhost)
    await daemon.apply(to(receiver, "/ok/poison", "poison"))
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            assert await daemon.stop() == 0
            poison = await publisher.publish("poison", body=b'{"kills":true}')
            deaths = 0
            while deaths <= MOST_DEATHS:
                daemon.spawn("during-request")
                await until(lambda: ended(daemon) or daemon.count("delivery.parked"), "death or parked", 30)
                if not ended(daemon):
                    break
                deaths += 1
            assert 1 <= deaths <= MOST_DEATHS
            await daemon.stop()
            await daemon.start()
            behind = await publisher.publish("poison")

            await all_delivered(receiver, "/ok/poison", [behind])
            [entry] = await daemon.parked(1, reason="poison")
            assert entry["event_id"] == poison
            assert deliveries(receiver, "/ok/poison")[poison] <= MOST_DEATHS
    finally:
        await daemon.__aexit__()


def ended(daemon: Daemon) -> bool:
    """Return whether the daemon's process is gone."""
    return daemon.process is not None and daemon.process.poll() is not None


async def test_many_deaths_over_full_lanes_park_nothing_innocent(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 70: 8 times kill -9 while the windows are full: every event arrives, none is parked.

    A repeated event was in a slot, or was settled in the 35 ms before its ack: a request takes 50.
    The proof ``restarts`` does it 50 times.
    """
    target, slots = "/slow/innocent?s=0.05", 4
    settings = {"LEVERET_SENDING__CONCURRENCY": str(slots), "LEVERET_WINDOWS__LANE_PREFETCH": "200"}
    daemon = Daemon(tmp_path, vhost, settings)
    await daemon.apply(to(receiver, target, "innocent", breaker=dict(BREAKER_OFF)))
    try:
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            ids = await publisher.publish_many("innocent", 200)
        for _ in range(MOST_DEATHS):
            seen = len(receiver.requests)
            holds = partial(lambda seen: len(receiver.requests) > seen + 2, seen)
            await until(holds, "it works")
            await daemon.kill()
            await daemon.start()

        found = await all_delivered(receiver, target, ids)
        assert daemon.count("message.suspected") > 0, "the windows were never full"
        assert daemon.count("delivery.parked") == 0
        assert sum(found.values()) - len(ids) <= MOST_DEATHS * 2 * slots
        assert max(found.values()) <= MOST_DEATHS
    finally:
        await daemon.__aexit__()
