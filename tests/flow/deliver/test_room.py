"""Entries that the full parked queue refused wait for room, and a worker that leaves waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import delivery_entry_headers
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.ports import Incoming
from consumer.tasks import TaskEnded
from tests.support.fakes import FakeTicket, MemoryArchive
from tests.support.flow.dead_letters import NOTE, DeadLetterDesk, dead
from tests.support.worker import DUE, NAMES, Worker, delivery_message, event, event_message


async def test_a_refused_entry_waits_for_room_and_is_parked_unchanged(desk: DeadLetterDesk) -> None:
    """While parked is full nothing is acked and nothing returns to overflow (fault 64, S1-4)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    headers = delivery_entry_headers(owed, NOTE)
    raw = delivery_message(owed, headers=headers | {"x-death": []}, routing_key="refused.exhausted")
    desk.worker.publisher.full = {"parked."}
    ticket = await desk.take(raw)
    await desk.worker.clock.advance(590)
    assert ticket.settles == []

    desk.worker.publisher.full = set()
    await desk.worker.clock.advance(10)

    [published] = desk.worker.publisher.confirmed
    assert (published.key, published.headers) == ("parked.exhausted", headers)
    assert ticket.settles == ["ack"]


class CancelledArchive(MemoryArchive):
    """An archive whose call somebody else cancels."""

    async def append(self, entry: Mapping[str, object]) -> None:
        """End as a cancelled call does."""
        raise asyncio.CancelledError


async def test_a_cancelled_desk_ends_the_routine() -> None:
    """Otherwise its messages would be taken and never settled, unseen."""
    worker = Worker()
    overflow = DeadLetters(worker.context, CancelledArchive())
    overflow.offer(Incoming(event_message(), FakeTicket(worker.journal, "expired")), expired=True)

    with pytest.raises(TaskEnded):
        await overflow.run()


async def test_expired_entries_are_archived_while_the_parked_queue_is_full(desk: DeadLetterDesk) -> None:
    """Fault 98: a dead letter waits up to ten minutes for room, and no expired entry waits behind it."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    entry = delivery_message(owed, headers=delivery_entry_headers(owed, NOTE))
    desk.worker.publisher.full = {"parked."}
    waiting = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))

    archived = [await desk.take(entry, expired=True) for _ in range(3)]

    assert (waiting.settles, [each.settles for each in archived]) == ([], [["ack"]] * 3)
    assert len(desk.archive.entries) == 3


@pytest.mark.parametrize("kind", ["refused", "delivery", "raw"])
async def test_entries_that_wait_too_long_for_room_are_given_back(desk: DeadLetterDesk, kind: str) -> None:
    """After ten minutes, before the consumer timeout takes it away; that is no bug (faults 64, 67)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    raw = {
        "refused": delivery_message(
            owed, headers=delivery_entry_headers(owed, NOTE), routing_key="refused.exhausted"
        ),
        "delivery": dead(delivery_message(owed), "delivery_limit", DUE),
        "raw": dead(event_message(), "expired", NAMES.lane(0)),
    }[kind]
    desk.worker.publisher.full = {"parked."}
    ticket = await desk.take(raw)

    await desk.worker.clock.advance(620)

    assert ticket.settles == ["requeue"]
    assert desk.worker.bugs() == []
    desk.worker.publisher.full = set()
    again = await desk.take(raw)
    assert again.settles == ["ack"]
    assert len(desk.worker.parked()) == 1


async def test_a_message_lost_while_it_waited_is_not_parked_twice(desk: DeadLetterDesk) -> None:
    """Its channel closed: it is given out again, so this copy is no longer published (fault 67)."""
    desk.worker.publisher.full = {"parked."}
    lost = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))
    await desk.worker.clock.advance(60)

    lost.dead = True
    desk.worker.publisher.full = set()
    again = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))
    await desk.worker.clock.advance(10)

    assert len(desk.worker.parked()) == 1
    assert "ack" not in lost.settles
    assert again.settles == ["ack"]


@pytest.mark.parametrize("expired", [False, True])
async def test_leaving_waits_for_work_under_way(desk: DeadLetterDesk, expired: bool) -> None:
    """Fault 58: parked or archived once, it is acked before the end; messages not begun are given back."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    raw = delivery_message(owed, headers=delivery_entry_headers(owed, NOTE))
    raw = raw if expired else dead(event_message(), "expired", NAMES.lane(0))
    desk.worker.publisher.hang()
    desk.archive.hang()
    begun = await desk.take(raw, expired=expired)
    behind = await desk.take(dead(event_message(), "expired", NAMES.lane(0)), expired=expired)
    leaving = asyncio.create_task(desk.overflow.leave(limit_s=30))
    await desk.worker.clock.advance(20)
    assert not leaving.done()

    desk.worker.publisher.go_on()
    desk.archive.go_on()

    assert await leaving == 1
    assert (begun.settles, behind.settles) == (["ack"], ["requeue"])
    late = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))
    await desk.worker.clock.advance(20)
    assert late.settles == []
    assert len(desk.worker.parked()) + len(desk.archive.entries) == 1


async def test_leaving_does_not_wait_for_room(desk: DeadLetterDesk) -> None:
    """Faults 58, 64: while the parked queue is full nothing is under way: given back at the next look."""
    desk.worker.publisher.full = {"parked."}
    ticket = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))
    await desk.worker.clock.advance(60)

    assert await desk.overflow.leave(limit_s=30) == 1

    assert ticket.settles == ["requeue"]
    assert desk.worker.clock.monotonic() < 70
    assert desk.worker.bugs() == []


async def test_leaving_ends_without_an_answer(desk: DeadLetterDesk) -> None:
    """A broker that confirms nothing does not hold up the end for ever (faults 58, 65)."""
    desk.worker.publisher.hang()
    ticket = await desk.take(dead(event_message(), "expired", NAMES.lane(0)))

    assert await desk.overflow.leave(limit_s=30) == 0

    assert desk.worker.clock.monotonic() == 30
    assert ticket.settles == []
    assert desk.worker.log.events("drain.abandoned") == [{"unsettled": 1}]
