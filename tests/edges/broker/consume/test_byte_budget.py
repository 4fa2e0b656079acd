"""The bound on the bytes in hand, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from consumer.edges.broker.connection.connect import underlay
from consumer.edges.broker.consume import byte_budget as budget_module
from consumer.edges.broker.consume import windows as windows_module
from consumer.edges.broker.consume.byte_budget import ByteBudget
from consumer.edges.broker.consume.windows import Window, WindowReader
from consumer.flow.observe.observer import Observer
from consumer.ports import Incoming, Source
from consumer.tasks import end
from metrics.series import Series
from tests.support.broker.topology import PATIENCE_S, SMALL, Live, connected, standing
from tests.support.fakes import RecordingLog
from tests.support.system.waiting import until

MIB = 1024 * 1024
LONGEST_S = 0.2  #: of a wait, where a test shortens it
LANES = (SMALL.names.lane(0), SMALL.names.lane(1))


class Reading:
    """A window on its way, and its messages so far."""

    def __init__(
        self,
        limit_bytes: int,
        prefetch: int = 50,
        room_bytes: float | None = None,
        queues: tuple[str, ...] = LANES,
        budget: ByteBudget | None = None,
    ) -> None:
        self.taken: asyncio.Queue[Incoming] = asyncio.Queue()
        self.budget = budget or ByteBudget(limit_bytes)
        self.is_wanted = True
        self.log = RecordingLog()
        self.reader = WindowReader(
            Window(source=Source.LANE, queues=queues, prefetch=prefetch, room_bytes=room_bytes),
            Observer(Series(CollectorRegistry()), self.log),
            lambda _source, incoming: self.taken.put_nowait(incoming),
            lambda: None,
            lambda: self.is_wanted,
            budget=self.budget,
        )

    async def waits(self) -> None:
        """Return once a message waits for room."""
        await until(self.budget.is_waiting, "a message that waits")


@asynccontextmanager
async def running(vhost: str, *readings: Reading) -> AsyncIterator[Live]:
    """Run the windows side by side on one connection, each with its consumers from the start."""
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        tasks = [asyncio.create_task(reading.reader.run(connection)) for reading in readings]
        try:
            await until(lambda: all(reading.reader.consuming for reading in readings), "windows that consume")
            yield live
            assert not underlay(connection).is_closed
        finally:
            await end(tasks)


async def ready_in_lanes(live: Live) -> int:
    """Return how many messages are ready in the lanes; the broker counts returned ones some time later."""
    ready = 0
    for lane in LANES:
        found = await live.channel.declare_queue(lane, passive=True)
        ready += found.declaration_result.message_count or 0
    return ready


async def test_no_more_bytes_are_in_hand_than_there_is_room_for(vhost: str) -> None:
    """Fault 88: 16 messages of 1 MiB, room for 4: the others wait at the connection."""
    reading = Reading(4 * MIB + 300_000)
    most = 0
    async with running(vhost, reading) as live:
        for number in range(16):
            await live.publish("", LANES[number % 2], bytes(MIB))
        for _ in range(4):
            first = [await reading.taken.get() for _ in range(4)]
            if reading.taken.empty() and _ < 3:
                await reading.waits()
            most = max(most, reading.budget.held_bytes)
            assert reading.taken.empty()
            for incoming in first:
                await incoming.ticket.ack()
        assert reading.budget.held_bytes == 0

    assert 4 * MIB <= most <= 4 * MIB + 300_000


async def test_one_message_always_fits(vhost: str) -> None:
    """A message larger than all of the room is taken alone, and nothing beside it."""
    reading = Reading(100_000)
    async with running(vhost, reading) as live:
        for _ in range(3):
            await live.publish("", LANES[0], bytes(MIB))
        for _ in range(3):
            incoming = await reading.taken.get()
            assert reading.taken.empty()
            await incoming.ticket.ack()
        assert reading.budget.held_bytes == 0


async def test_a_long_wait_lets_some_through_and_keeps_the_connection(
    vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker closes a connection that it cannot write to for 15 to 30 s."""
    monkeypatch.setattr(budget_module, "LONGEST_S", LONGEST_S)
    monkeypatch.setattr(budget_module, "BEAT_S", 0.05)
    reading = Reading(MIB)
    async with running(vhost, reading) as live:
        for _ in range(4):
            await live.publish("", LANES[0], bytes(MIB))
        began = asyncio.get_running_loop().time()
        held = [await reading.taken.get() for _ in range(4)]
        assert asyncio.get_running_loop().time() >= began + 2 * LONGEST_S, "the last three wait"
        for incoming in held:
            await incoming.ticket.ack()
        assert reading.budget.held_bytes == 0


async def test_an_answer_behind_messages_that_wait_is_waited_for(
    vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 88: the channel of a window stays, and no message in hand comes twice."""
    monkeypatch.setattr(budget_module, "LONGEST_S", PATIENCE_S)
    large = Reading(MIB + 200_000, queues=(LANES[0],))
    small = Reading(MIB, queues=(LANES[1],), budget=large.budget)
    async with running(vhost, small, large) as live:
        await live.publish("", LANES[1], b"in hand")
        in_hand = await small.taken.get()
        small.is_wanted = False
        await small.reader.follow()
        for _ in range(2):
            await live.publish("", LANES[0], bytes(MIB))
        first = await large.taken.get()
        await large.waits()

        small.is_wanted = True
        with monkeypatch.context() as short:
            short.setattr(windows_module, "CALL_S", LONGEST_S)
            short.setattr(windows_module, "LOOK_S", LONGEST_S / 4)
            follows = asyncio.create_task(small.reader.follow())
            await asyncio.wait({follows}, timeout=4 * LONGEST_S)
            assert not follows.done()
        await first.ticket.ack()
        await follows
        assert small.reader.consuming
        await live.publish("", LANES[1], b"next")
        assert (await small.taken.get()).message.body == b"next"
        await in_hand.ticket.ack()

    assert not small.log.events("window.failed")
    assert not small.log.events("window.closed")


async def test_leaving_off_lifts_the_bound_and_gives_the_excess_back(vhost: str) -> None:
    """A drain never waits for memory; messages that come meanwhile go back to other workers."""
    reading = Reading(2 * MIB)
    async with running(vhost, reading) as live:
        for number in range(12):
            await live.publish("", LANES[number % 2], bytes(MIB))
        first = await reading.taken.get()
        await reading.waits()

        reading.is_wanted = False
        with reading.budget.lifted():
            await reading.reader.follow()

        assert not reading.reader.consuming
        await first.ticket.ack()
        while not reading.taken.empty():
            await reading.taken.get_nowait().ticket.requeue()
        assert reading.budget.held_bytes == 0
        await reading.reader.flush()
        async with asyncio.timeout(PATIENCE_S):
            while await ready_in_lanes(live) != 11:  # noqa: ASYNC110 - a broker has no event
                await asyncio.sleep(0.02)


async def test_messages_of_a_lost_channel_are_charged_while_in_work(vhost: str) -> None:
    """The broker gives it out again, but its bytes are still here; bytes of an undelivered one are free."""
    reading = Reading(2 * MIB + 200_000)
    async with running(vhost, reading) as live:
        for _ in range(4):
            await live.publish("", LANES[0], bytes(MIB))
        held = [await reading.taken.get() for _ in range(2)]
        await reading.waits()
        one = reading.budget.held_bytes // 2
        assert reading.reader.in_hand.held == reading.budget.held_bytes

        await live.channel.queue_delete(LANES[1])
        with reading.budget.lifted():
            await until(lambda: reading.log.events("window.cancelled"), "a cancelled consumer")
        while not reading.taken.empty():
            reading.taken.get_nowait()
        del held[0]
        await until(lambda: reading.budget.held_bytes <= one, "the charge of the dropped message")

        assert reading.budget.held_bytes == reading.reader.in_hand.held == one
        await held[0].ticket.ack()
        assert reading.budget.held_bytes == 0


async def test_a_window_grows_with_small_messages_and_shrinks_with_large_ones(vhost: str) -> None:
    """Fault 88: each change consumes anew, and no message is lost or comes twice."""
    reading = Reading(2**40, prefetch=64, room_bytes=32 * MIB)
    async with running(vhost, reading) as live:
        seen: list[bytes] = []

        async def settle(count: int) -> None:
            for _ in range(count):
                incoming = await reading.taken.get()
                seen.append(incoming.message.body[:4])
                await incoming.ticket.ack()

        async def publish_until(resized: int) -> None:
            while len(reading.log.events("window.resized")) < resized:
                await live.publish("", LANES[0], b"more")
                await settle(1)

        for number in range(40):
            await live.publish("", LANES[number % 2], f"{number:04d}".encode())
        await settle(40)
        await publish_until(1)
        for number in range(40, 60):
            await live.publish("", LANES[number % 2], f"{number:04d}".encode() + bytes(4 * MIB))
        await settle(20)
        await until(lambda: len(reading.log.events("window.resized")) >= 2, "the second change")

    numbered = [int(body) for body in seen if body != b"more"]
    assert sorted(numbered) == list(range(60))


async def test_a_full_window_grows_while_its_messages_stay_in_hand(vhost: str) -> None:
    """No message comes to a full window, so it grows by its clock: none stays behind slow endpoints."""
    reading = Reading(2**40, prefetch=512, room_bytes=80 * MIB)
    async with running(vhost, reading) as live:
        for number in range(100):
            await live.publish("", LANES[0], f"{number:04d}".encode())
        held = [await reading.taken.get() for _ in range(100)]
        for incoming in held:
            await incoming.ticket.ack()

    assert sorted(int(incoming.message.body) for incoming in held) == list(range(100))
