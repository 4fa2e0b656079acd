"""A look into a real queue: it sees all, gives back all but the acked, and a restart changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import count

import pytest
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry, ParkNote, delivery_entry_headers
from consumer.core.model import Event, ParkReason
from consumer.edges.broker import look
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.look import FIRST_WINDOW, Held, QueueInUse, look_into
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import Skipped, browse, replay
from consumer.edges.private_broker import PrivateBroker
from consumer.ports import Publication
from tests.support.broker.topology import PATIENCE_S, SMALL, connected, standing

NAMES = SMALL.names
QUEUE = "looked-at"
TURN = Turn(command="test")
MANY = 400  #: messages
SOME = 37  #: of them


async def fill(connection: AbstractConnection, many: int, kind: str = "quorum") -> Channel:
    """Make a queue of numbered messages; return a channel to ask for its counts."""
    channel = await open_channel(connection, confirms=True)
    await channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": kind})
    confirms = Confirms(channel)
    numbered = [Publication(exchange="", routing_key=QUEUE, body=b"%d" % number) for number in range(many)]
    await asyncio.gather(*(confirms.publish(one, str(number)) for number, one in enumerate(numbered)))
    return channel


async def counts(channel: Channel) -> tuple[int, int]:
    """Return ready messages and consumers of the queue."""
    found = await channel.queue_declare(QUEUE, passive=True)
    return found.message_count or 0, found.consumer_count or 0


async def seen(connection: AbstractConnection, queue: str = QUEUE) -> list[bytes]:
    """Look at all bodies in the queue."""
    async with look_into(connection, queue) as looked:
        return [held.message.body async for held in looked.messages()]


async def take(connection: AbstractConnection, some: int) -> list[bytes]:
    """Ack the first *some* messages of a complete look; return their bodies."""
    async with look_into(connection, QUEUE) as looked:
        held = [one async for one in looked.messages()]
        for one in held[:some]:
            await one.ack()
    return [one.message.body for one in held[:some]]


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_looks_and_acks_survive_a_restart(own_broker: PrivateBroker, end: str) -> None:
    """Fault 80: after a look and a partial take each message is in the queue, or gone, and never both.

    The broker ends at once: every acked message is in the queue's log when the look has ended.
    """
    async with connected(own_broker.start(bound=True).amqp_url) as connection:
        await fill(connection, MANY)
        await asyncio.sleep(2)  # the node writes down which queues it has every 500 ms
        assert len(set(await seen(connection))) == MANY
        gone = {*await take(connection, SOME), *await take(connection, 3 * SOME)}
        await asyncio.to_thread(own_broker.stop if end == "stop" else own_broker.kill)

    async with connected(own_broker.start(bound=True).amqp_url) as connection:
        left = await seen(connection)

    assert len(gone) == 4 * SOME
    assert sorted(left) == sorted({b"%d" % number for number in range(MANY)} - gone)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_look_gives_unseen_messages_back(vhost: str, kind: str) -> None:
    """Fault 80: one that is left early leaves all, with no consumer. A quorum queue may change the order."""
    async with connected(vhost) as connection:
        channel = await fill(connection, MANY, kind)

        async with look_into(connection, QUEUE) as looked:
            first = await anext(looked.messages())

        assert first.message.body == b"0"
        assert await counts(channel) == (MANY, 0)
        assert sorted(await seen(connection)) == sorted(b"%d" % number for number in range(MANY))


async def test_a_cancelled_look_gives_back_by_nack(vhost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 80: wherever it is cancelled, no channel closes while it has messages.

    The AMQP library closes a channel whose call is cancelled: so calls come to their end first.
    """
    held_at_close: list[int] = []
    close = look.Look._close

    async def watched(self: look.Look) -> None:
        for window in self._windows:
            assert not window.channel.is_closed
            held_at_close.append((await counts(window.channel))[1])
        await close(self)

    monkeypatch.setattr(look.Look, "_close", watched)
    async with connected(vhost) as connection:
        channel = await fill(connection, MANY)
        for steps in count(0, 7):  # turns of the loop until the cancellation
            looking = asyncio.create_task(seen(connection))
            for _ in range(steps):
                await asyncio.sleep(0.001)
            if looking.done() or not looking.cancel():
                break
            with pytest.raises(asyncio.CancelledError):
                await looking
            assert await counts(channel) == (MANY, 0)
    assert held_at_close
    assert not any(held_at_close)


async def test_looks_take_turns(vhost: str) -> None:
    """Fault 80: of many looks at once each sees everything, and none finds the queue empty."""
    async with connected(vhost) as connection:
        await fill(connection, MANY)

        found = await asyncio.gather(*(seen(connection) for _ in range(6)))

    assert [len(set(bodies)) for bodies in found] == [MANY] * 6


async def test_a_look_that_gets_no_turn_says_so(vhost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 80: while somebody else holds all, the answer is an error, not "nothing is parked"."""
    monkeypatch.setattr(look, "TURN_S", 0.0)
    async with connected(vhost) as connection:
        await fill(connection, 5)
        async with look_into(connection, QUEUE) as looked:
            assert len([held async for held in looked.messages()]) == 5
            with pytest.raises(QueueInUse, match="looked-at is being read by another consumer"):
                await seen(connection)
        assert len(await seen(connection)) == 5


async def test_bodies_on_their_way_are_bounded(vhost: str) -> None:
    """A look that waits is sent one window and no more; then it sees all, however many windows that takes."""
    async with connected(vhost) as connection:
        channel = await fill(connection, MANY)
        bodies = []
        async with look_into(connection, QUEUE) as looked:
            async for held in looked.messages():
                bodies.append(held.message.body)
                if len(bodies) == 1:
                    assert (await counts(channel))[0] == MANY - FIRST_WINDOW
    assert bodies == [b"%d" % number for number in range(MANY)]


async def test_entries_that_come_during_a_look_wait_for_the_next(vhost: str) -> None:
    """A look ends, however fast more is parked."""
    async with connected(vhost) as connection:
        await fill(connection, 10)
        async with look_into(connection, QUEUE) as looked:
            first: list[Held] = []
            async for held in looked.messages():
                first.append(held)
                await fill(connection, 1)
        assert len(first) == 10
        assert len(await seen(connection)) == 20


async def test_a_queue_that_is_not_there_is_an_error(vhost: str) -> None:
    """The error names the queue."""
    async with connected(vhost) as connection:
        with pytest.raises(BrokerUnavailable, match="queue looked-at: "):
            await seen(connection)


async def park(connection: AbstractConnection, number: int, *targets: str) -> str:
    """Park one delivery; return the id of its entry."""
    event = Event(
        id=f"e{number}", tenant="acme", type="a.b", timestamp="t", arrived_at=time.time(), body=b"{}"
    )
    note = ParkNote(reason=ParkReason.EXHAUSTED, detail="503", at=time.time(), ttl_s=3600.0)
    headers = delivery_entry_headers(DeliveryMessage(event=event, targets=targets), note)
    channel = await open_channel(connection, confirms=True)
    parked = Publication(
        exchange=NAMES.dlx, routing_key=NAMES.parked_key("exhausted"), body=b"{}", headers=headers
    )
    await Confirms(channel).publish(parked, event.id)
    await channel.close()
    return str(headers["leveret-entry"])


async def listed(entries: AsyncIterator[ParkedEntry]) -> list[str]:
    """Return the ids of the parked entries."""
    return [entry.id async for entry in entries]


async def test_a_cancelled_replay_finishes_its_publishes(vhost: str) -> None:
    """Fault 80: each entry is parked or sent, none both, and each that was sent was yielded."""
    async with standing(vhost, SMALL) as live:
        ids = [await park(live.connection, number, "sub_1") for number in range(12)]
        sent: list[str] = []
        begun = asyncio.Event()

        async def send() -> None:
            async with aclosing(replay(live.connection, NAMES, TURN, lambda _: True, {"sub_1"})) as moved:
                async for one in moved:
                    sent.append(one.id)
                    begun.set()

        replaying = asyncio.create_task(send())
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        replaying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await replaying

        left = await listed(browse(live.connection, NAMES, TURN))
        under_way = await seen(live.connection, NAMES.replay)
    assert sorted(sent + left) == sorted(ids)
    assert len(under_way) == len(sent) < len(ids)


async def test_an_entry_stays_while_a_target_of_it_is_gone(vhost: str) -> None:
    """S1-5: a worker would cancel it; of several targets one that is gone keeps the whole entry."""
    async with standing(vhost, SMALL) as live:
        goes = await park(live.connection, 1, "sub_1")
        gone = await park(live.connection, 2, "sub_2")
        half = await park(live.connection, 3, "sub_1", "sub_2")

        found = [one async for one in replay(live.connection, NAMES, TURN, lambda _: True, {"sub_1"})]

        assert await listed(browse(live.connection, NAMES, TURN)) == [gone, half]
        assert len(await seen(live.connection, NAMES.replay)) == 1
    assert [one.id for one in found if isinstance(one, ParkedEntry)] == [goes]
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert [one.id for one in skipped] == [gone, half]
    assert all(one.reason.startswith("the store has no subscription sub_2; ") for one in skipped)
