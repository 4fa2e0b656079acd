"""One command at a time has the parked entries in hand, and the next one learns which."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import httpx2
import pytest
from aio_pika.abc import AbstractConnection

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry, ParkNote, delivery_entry_headers
from consumer.core.model import Event, ParkReason
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.look import QueueInUse
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.operate.parked.lock import Turn, asked, holding
from consumer.edges.operate.parked.queue import browse, replay
from consumer.ports import Publication
from tests.support.broker.topology import PATIENCE_S, SMALL, Live, connected, standing

NAMES = SMALL.names
MANY = 100  #: entries
REPLAY = Turn(command="leveret parked replay")
LIST = Turn(command="leveret parked list")


async def park_many(connection: AbstractConnection, count: int) -> None:
    """Park *count* deliveries for ``sub_1``."""
    confirms = Confirms(await open_channel(connection, confirms=True))
    publishing = []
    for number in range(count):
        event = Event(
            id=f"e{number}", tenant="acme", type="a.b", timestamp="t", arrived_at=time.time(), body=b"{}"
        )
        note = ParkNote(reason=ParkReason.EXHAUSTED, detail="503", at=time.time(), ttl_s=3600.0)
        headers = delivery_entry_headers(DeliveryMessage(event=event, targets=("sub_1",)), note)
        parked = Publication(
            exchange=NAMES.dlx, routing_key=NAMES.parked_key("exhausted"), body=b"{}", headers=headers
        )
        publishing.append(confirms.publish(parked, event.id))
    await asyncio.gather(*publishing)


async def test_a_second_command_gets_the_name_of_the_holder(vhost: str) -> None:
    """S1-5: command, host and process are in the error, and an ended command holds nothing."""
    async with standing(vhost, SMALL) as live, connected(vhost) as other:
        async with holding(live.connection, NAMES, REPLAY):
            with pytest.raises(QueueInUse) as refused:
                await holding(other, NAMES, LIST).__aenter__()
        async with holding(other, NAMES, LIST):
            holder = await asked(live.connection, NAMES)
        assert await asked(live.connection, NAMES) is None
    text = f"in use by `leveret parked replay` on {socket.gethostname()}, process {os.getpid()}, since 20"
    assert text in str(refused.value)
    assert "--wait" in str(refused.value)
    assert holder is not None
    assert holder.command == "leveret parked list"


async def test_the_lock_ends_with_its_connection(vhost: str) -> None:
    """S1-5: a kill -9 leaves nothing to tidy up."""
    patient = Turn(command="leveret parked list", wait_s=PATIENCE_S)
    async with AsyncExitStack() as stack, standing(vhost, SMALL), connected(vhost) as other:
        holder = await stack.enter_async_context(connected(vhost))
        await stack.enter_async_context(holding(holder, NAMES, REPLAY))
        await holder.close()

        async with asyncio.timeout(PATIENCE_S), holding(other, NAMES, patient):
            pass


async def test_a_command_waits_if_it_is_asked_to(vhost: str) -> None:
    """It names the holder once, and goes on when that has ended."""
    lines: list[str] = []
    begun = asyncio.Event()

    def begin(line: str) -> None:
        lines.append(line)
        begun.set()

    async with standing(vhost, SMALL) as live, connected(vhost) as other:

        async def wait() -> None:
            turn = Turn(command="leveret parked show", wait_s=PATIENCE_S, on_wait=begin)
            async with holding(other, NAMES, turn):
                pass

        async with holding(live.connection, NAMES, REPLAY):
            waiting = asyncio.create_task(wait())
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            assert not waiting.done()
        await asyncio.wait_for(waiting, PATIENCE_S)
    [line] = lines
    assert line.startswith("waiting for `leveret parked replay` on ")


async def test_a_replay_beside_a_look_sends_all_or_reports(vhost: str) -> None:
    """S1-5: once a replay beside a list sent 266 of 1,000 entries and reported nothing."""
    async with standing(vhost, SMALL) as live, connected(vhost) as other:
        await park_many(live.connection, MANY)
        replayed: list[str] = []
        async for one in replay(live.connection, NAMES, REPLAY, lambda _: True, {"sub_1"}):
            assert isinstance(one, ParkedEntry)
            replayed.append(one.id)
            if len(replayed) == 1:
                with pytest.raises(QueueInUse, match="leveret parked replay"):
                    _ = [entry async for entry in browse(other, NAMES, LIST)]
    assert len(set(replayed)) == MANY


async def test_a_replay_beside_a_foreign_consumer_reports_the_rest(vhost: str) -> None:
    """S1-5: a program without the lock takes entries meanwhile: the replay ends with an error."""
    sent: list[str] = []

    async def send(live: Live, other: AbstractConnection) -> None:
        async for one in replay(live.connection, NAMES, REPLAY, lambda _: True, {"sub_1"}):
            if not sent:
                channel = await other.channel()
                queue = await channel.get_queue(NAMES.parked, ensure=False)
                await queue.consume(_keep)
            sent.append(one.id)

    async with standing(vhost, SMALL) as live, connected(vhost) as other:
        await park_many(live.connection, MANY)
        with pytest.raises(QueueInUse, match="another consumer holds up to"):
            await send(live, other)
    assert 0 < len(sent) < MANY


async def test_without_the_rights_there_is_no_lock(
    vhost: str, management: httpx2.Client, reader: str
) -> None:
    """A user who may only read still looks; only the turns at the queue separate the two."""
    parts = urlsplit(vhost)
    limited = f"amqp://{reader}:{reader}@{parts.hostname}:{parts.port}{parts.path}"
    async with standing(vhost, SMALL) as live, connected(limited) as other:
        await park_many(live.connection, 3)
        async with holding(live.connection, NAMES, REPLAY):
            assert len([entry async for entry in browse(other, NAMES, LIST)]) == 3


async def _keep(message: object) -> None:
    """Take a message, and never settle it."""


@pytest.fixture
def reader(vhost: str, management: httpx2.Client) -> Iterator[str]:
    """A user that may only read; gone again after the test."""
    user, name = "looker", urlsplit(vhost).path.strip("/")
    management.put(f"/api/users/{user}", json={"password": user, "tags": ""}).raise_for_status()
    rights = {"configure": "^$", "write": "^$", "read": ".*"}
    management.put(f"/api/permissions/{name}/{user}", json=rights).raise_for_status()
    yield user
    management.delete(f"/api/users/{user}").raise_for_status()
