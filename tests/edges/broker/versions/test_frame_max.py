"""The largest frame: 4.1 refuses a client that asks for less than 8,192 bytes; 0 means no limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from yarl import URL

from consumer.edges.broker.connection.connect import (
    AmqpOptions,
    close_quietly,
    connect,
    open_channel,
    underlay,
)
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication
from tests.support.broker.behaviour import V4_0, V4_1, V4_3_7, Behaviour
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.fake_queues import FakeQueue
from tests.support.broker.topology import PATIENCE_S


@pytest.mark.parametrize("frame_max", [0, 8_192, 16_384, 131_072])
@pytest.mark.parametrize("behaviour", [V4_0, V4_1, V4_3_7], ids=lambda each: each.version)
async def test_a_body_travels_in_frames_that_the_broker_takes(behaviour: Behaviour, frame_max: int) -> None:
    """Fault 97: we take the broker's own limit, and keep to it."""
    body = bytes(range(256)) * 1_200
    async with asyncio.timeout(PATIENCE_S), FakeBroker(replace(behaviour, frame_max=frame_max)) as broker:
        queue = broker.queues["lane"] = FakeQueue("lane")
        connection = await connect(AmqpOptions(urls=(broker.url,)), "test")
        confirms = Confirms(await open_channel(connection, confirms=True))
        await confirms.publish(Publication(exchange="", routing_key="lane", body=body), "1")
        await close_quietly(connection)

    assert [message.body for message in queue.ready] == [body]
    assert broker.refusals == []


async def test_a_limit_in_the_url_is_not_passed_on() -> None:
    """RabbitMQ 4.1 would refuse 4,096, which some clients use by default."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(V4_1) as broker:
        url = str(URL(broker.url).with_query(frame_max="4096"))
        connection = await connect(AmqpOptions(urls=(url,)), "test")
        assert underlay(connection).connection_tune.frame_max == 131_072
        await close_quietly(connection)


async def test_the_first_frames_are_small() -> None:
    """Before the connection is open, 4.0 takes 4,096 bytes: enough for a long name and password."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(V4_0) as broker:
        url = str(URL(broker.url).with_user("u" * 255).with_password("p" * 1_024))
        connection = await connect(AmqpOptions(urls=(url,)), "publish " + "n" * 200)
        await close_quietly(connection)

    assert broker.refusals == []
