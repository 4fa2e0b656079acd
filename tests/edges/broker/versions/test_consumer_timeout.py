"""A consumer time-out closes the channel up to 4.2, and cancels the one consumer from 4.3 on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from consumer.ports import Incoming
from tests.support.broker.behaviour import V4_2, V4_3_0, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.fake_queues import FakeQueue
from tests.support.broker.reading import Reading, reading
from tests.support.broker.topology import PATIENCE_S
from tests.support.servers.raw_server import eventually

LANES = ("lane.0", "lane.1")
VERSIONS = pytest.mark.parametrize("behaviour", [V4_2, V4_3_0, V4_3_7], ids=lambda each: each.version)


@asynccontextmanager
async def in_hand(behaviour: Behaviour) -> AsyncIterator[tuple[FakeBroker, Reading, dict[str, Incoming]]]:
    """Take one message of each lane, and give them by lane, with the broker and the reader."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        for lane in LANES:
            broker.queues[lane] = FakeQueue(lane)
            broker.put(lane, lane.encode())
        async with reading(broker.url, LANES) as read:
            yield broker, read, await taken(read)


async def taken(read: Reading) -> dict[str, Incoming]:
    """Return the next message of each lane."""
    return {(one := await read.taken.get()).message.queue: one for _ in LANES}


@VERSIONS
async def test_a_timed_out_message_is_owed_by_its_next_copy_alone(behaviour: Behaviour) -> None:
    """Fault 63: the copy in hand is not ours any more, so its publishes are dropped; the next copy is."""
    async with in_hand(behaviour) as (broker, read, old):
        broker.time_out(LANES[0])
        new = await taken(read)

        assert [one.ticket.alive() for one in old.values()] == [False, False]
        assert [one.ticket.alive() for one in new.values()] == [True, True]
        for incoming in (*old.values(), *new.values()):
            await incoming.ticket.ack()
        await read.reader.flush()
        assert [queue.readers() for queue in broker.queues.values()] == [1, 1]
        assert not any(channel.unacked for channel in broker.channels())


@VERSIONS
async def test_messages_of_a_deleted_queue_stay_ours(behaviour: Behaviour) -> None:
    """Fault 62: no other copy exists, so the deliveries are brought to their end."""
    async with in_hand(behaviour) as (broker, _, old):
        broker.delete(LANES[0])
        await eventually(lambda: not old[LANES[1]].ticket.alive())

        assert old[LANES[0]].ticket.alive()
