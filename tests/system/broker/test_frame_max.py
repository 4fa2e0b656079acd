"""Fault 97: a broker with a small ``frame_max``, and headers that do not fit into a frame."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aio_pika
import pytest
import pytest_asyncio

from consumer.core.errors import FrameTooLarge
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.wire.confirmed import Confirms, demand_fit, frame_max_of
from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.publishers import HELLO
from tests.support.broker.topology import SMALL, standing
from tests.support.broker.vhosts import ctl
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import running
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

FRAME_MAX = 16_384
WIDE = tuple(f"x{number}" for number in range(8))  #: headers that fill a frame, and do not fit beside our own


@pytest_asyncio.fixture
async def small_frames(node: PrivateBroker) -> AsyncIterator[None]:
    """Let the node negotiate small frames with each new connection."""
    await ctl(node, "eval", f"application:set_env(rabbit, frame_max, {FRAME_MAX}).")
    yield
    await ctl(node, "eval", "application:set_env(rabbit, frame_max, 131072).")


async def publish_without_id(publisher: EventPublisher, headers: dict[str, str]) -> None:
    """Publish an event that a worker has to publish once more, with an id."""
    exchange = await publisher.channel.get_exchange("leveret.events", ensure=False)
    await exchange.publish(aio_pika.Message(b"{}", headers=dict(headers)), "order.created")


@pytest.mark.usefixtures("small_frames")
async def test_a_frame_that_is_too_large_is_never_written(node_url: str) -> None:
    """Fault 97: the largest frame is confirmed; one byte more is refused, and the channel stays open."""
    async with standing(node_url, SMALL):
        connection = await aio_pika.connect(node_url)
        async with connection:
            confirms = Confirms(await open_channel(connection, confirms=True))
            assert frame_max_of(confirms.channel) == FRAME_MAX
            empty = replace(HELLO, headers={"leveret-event": ""}, body=bytes(3 * FRAME_MAX), message_id="m")
            with pytest.raises(FrameTooLarge) as refused:
                demand_fit(confirms.channel, replace(empty, headers={"leveret-event": "x" * FRAME_MAX}))
            most = FRAME_MAX - refused.value.excess_bytes

            await confirms.publish(replace(empty, headers={"leveret-event": "x" * most}), "m")
            with pytest.raises(FrameTooLarge, match="frame_max"):
                await confirms.publish(replace(empty, headers={"leveret-event": "x" * (most + 1)}), "m")
            await confirms.publish(HELLO, "m")


@pytest.mark.usefixtures("small_frames")
async def test_an_event_whose_headers_fill_a_frame_harms_nobody(
    node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 97: such a message is parked ``too_large``; the connection and the others go on."""
    good, bad = "/flaky/good?share=0.3", "/slow/bad?s=0&status=503"
    settings = {"LEVERET_EVENTS__HEADERS": json.dumps(WIDE)}
    async with running(tmp_path, node_url, settings) as daemon:
        await daemon.apply(
            to(receiver, good, "good", retry=dict(QUICK) | {"max_attempts": 50}, breaker=dict(BREAKER_OFF)),
            to(receiver, bad, "bad", retry=dict(QUICK), breaker=dict(BREAKER_OFF)),
        )
        async with EventPublisher(node_url) as publisher:
            wide = dict.fromkeys(WIDE, "y" * 1985)
            await publisher.publish("bad", headers=wide)
            await publisher.publish("bad", body=b"not JSON", headers={"x": "\x01" * 2_700})
            await publish_without_id(publisher, wide | {"tenant": "bad"})
            ids = await publisher.publish_many("good", 50)
            await all_delivered(receiver, good, ids)
            await until(lambda: daemon.count("delivery.parked") >= 3, "all bad ones are parked")
        await until(lambda: daemon.unready() == "", "/readyz is green")

        assert daemon.metric("leveret_reconnects_total") == 0
        entries = await daemon.parked(daemon.count("delivery.parked"))
        reasons = sorted(str(each["reason"]) for each in entries)
        assert reasons == ["malformed", "too_large", "too_large"]
