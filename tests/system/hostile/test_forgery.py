"""The forgeries of the proof change nothing outside of their own delivery."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import aio_pika
import pytest

from tests.support.hostile.forged import FORGERIES, HOSTILE, OPERATORS, SOURCES, VICTIM, Forgery, publish
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

SETTINGS = {"LEVERET_TOPOLOGY__LANES": "1", "LEVERET_SOURCES": json.dumps(SOURCES)}
OUT, DESK, OWN = "/ok/victim", "/ok/desk", "/ok/hostile"


def test_there_are_as_many_kinds_as_promised() -> None:
    """30 at least, each with a name of its own."""
    names = [forgery.name for forgery in FORGERIES]

    assert len(names) == len(set(names)) >= 30


def deaths() -> list[Forgery]:
    """Return the kinds that carry a death on record."""
    return [forgery for forgery in FORGERIES if "x-death" in forgery.headers]


@pytest.fixture
async def stopped(vhost: str, tmp_path: Path, receiver: Receiver) -> Daemon:
    """A daemon that declared its queues, and stopped."""
    async with await aio_pika.connect(vhost) as connection:
        channel = await connection.channel()
        for source in SOURCES:
            await channel.declare_exchange(source["exchange"], "topic", durable=True)
    daemon = Daemon(tmp_path, vhost, SETTINGS)
    await daemon.apply(to(receiver, OUT, VICTIM), to(receiver, DESK, OPERATORS), to(receiver, OWN, HOSTILE))
    await daemon.start()
    await daemon.stop()
    return daemon


async def test_every_kind_at_once(vhost: str, stopped: Daemon, receiver: Receiver) -> None:
    """Faults 89, 18: the victim's dead letter leaves the lane, its events come once, operators hear nothing.

    Forty copies of each death expire while no worker runs: more than the broker's dead-letter process holds.
    """
    await publish(vhost, deaths(), 40, expiration_ms=1)
    async with EventPublisher(vhost) as publisher:
        dying = await publisher.publish(VICTIM, expiration=0.001)
        await publish(vhost, FORGERIES, 1)
        alive = [await publisher.publish(VICTIM) for _ in range(5)]
        await stopped.start()
        try:
            await all_delivered(receiver, OUT, alive)
            await until(lambda: stopped.metric("leveret_requests_in_flight") == 0, "nothing in flight")
            [entry] = await stopped.parked(1, tenant=VICTIM)
        finally:
            await stopped.stop()

    assert (entry["event_id"], entry["reason"]) == (dying, "expired")
    assert Counter(one.webhook_id for one in requests_of(receiver, OUT)) == Counter(alive)
    heard = {one.webhook_id for one in requests_of(receiver, DESK)}
    assert all(one.startswith("ops_") for one in heard)
    assert "ops_" + "0" * 32 not in heard
