"""Looks into a queue meet a consumer time-out, which from 4.3 on cancels the consumer alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.broker.look import look_into
from tests.support.broker.behaviour import V4_2, V4_3_0, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.fake_queues import FakeQueue
from tests.support.broker.topology import PATIENCE_S

VERSIONS = pytest.mark.parametrize("behaviour", [V4_2, V4_3_0, V4_3_7], ids=lambda each: each.version)


@asynccontextmanager
async def three_parked(
    behaviour: Behaviour,
) -> AsyncIterator[tuple[FakeBroker, FakeQueue, AbstractConnection]]:
    """Give a broker with three messages in one queue, that queue, and a connection."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(behaviour) as broker:
        queue = broker.queues["parked"] = FakeQueue("parked")
        for number in range(3):
            broker.put("parked", b"%d" % number)
        connection = await connect(AmqpOptions(urls=(broker.url,)), "test")
        yield broker, queue, connection
        await close_quietly(connection)


@VERSIONS
async def test_an_ack_after_the_time_out_is_an_error(behaviour: Behaviour) -> None:
    """The broker ignores such an ack, so the entry comes again; the command must report that."""
    async with three_parked(behaviour) as (broker, queue, connection):

        async def acked_too_late() -> None:
            async with look_into(connection, "parked") as look:
                held = [one async for one in look.messages()]
                broker.time_out("parked")
                for one in held:
                    await one.ack()

        with pytest.raises((BrokerUnavailable, RuntimeError)):
            await acked_too_late()

    assert sorted(message.body for message in queue.ready) == [b"0", b"1", b"2"]


@VERSIONS
async def test_a_look_gives_back_and_acks(behaviour: Behaviour) -> None:
    """Without a time-out every version keeps exactly the messages that were not acked."""
    async with three_parked(behaviour) as (_, queue, connection), look_into(connection, "parked") as look:
        held = [one async for one in look.messages()]
        await held[1].ack()

    assert [message.body for message in queue.ready] == [b"0", b"2"]
