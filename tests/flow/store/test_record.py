"""The records of the flow: states of endpoints, and parked entries."""

from __future__ import annotations

import asyncio

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkNote, delivery_entry_headers
from consumer.core.model import ParkReason
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.ports import Incoming
from tests.support.fakes import FakeTicket, MemoryArchive, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker, delivery_message, event, event_message

SHOP = "https://shop.example/"


async def test_every_state_of_an_endpoint_is_reported(worker: Worker) -> None:
    """Closed when it is met, then each change of its breaker with the epoch."""
    await worker.subscribe("shop", breaker={"failures": 2, "cooldown_s": 30})
    worker.sender.on(SHOP, Reply(status=503))
    for number in range(2):
        await worker.handle(event_message(message_id=f"ord-{number}"))
    assert worker.record.states == [("shop", "closed", 0, ""), ("shop", "open", 1, "")]

    worker.sender.on(SHOP, Reply(status=200))
    await worker.clock.advance(40)
    await worker.handle(event_message(message_id="ord-9"))

    assert [state for _, state, _, _ in worker.record.states] == ["closed", "open", "probing", "closed"]
    epochs = [epoch for _, _, epoch, _ in worker.record.states]
    assert epochs == sorted(epochs)


async def test_a_disabled_endpoint_is_reported_with_its_reason(worker: Worker) -> None:
    """Fault 38: once, for any number of such answers."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=410))

    await worker.handle(event_message())

    assert worker.record.states[-1][:2] == ("shop", "disabled")
    assert "410" in worker.record.states[-1][3]


async def test_parked_entries_are_reported_after_their_confirm(worker: Worker) -> None:
    """Delivery and raw message alike, by the id that the parked queue shows."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=400))
    await worker.handle(event_message())
    await worker.handle(event_message(b"no json", message_id="ord-2"))

    assert sorted(worker.record.entries) == sorted(entry.id for entry in worker.parked())
    rows = {row.reason: row for row in worker.record.entries.values()}
    assert (rows["permanent"].event_id, rows["permanent"].code, rows["permanent"].attempts) == (
        "ord-1",
        "400",
        1,
    )
    assert (rows["malformed"].event_id, rows["malformed"].subscription_ids) == ("ord-2", ())


async def test_unconfirmed_entries_are_not_reported(worker: Worker) -> None:
    """The index never shows an entry that the broker does not have."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=400))
    worker.publisher.connected = False

    worker.offer(event_message())
    await worker.clock.advance(60)

    assert worker.record.entries == {}


async def test_an_archived_entry_leaves_the_index(worker: Worker) -> None:
    """S1-4: an archived entry is parked no more."""
    note = ParkNote(reason=ParkReason.EXHAUSTED, detail="HTTP 503", at=1.0, ttl_s=60.0)
    owed = DeliveryMessage(event=event(), targets=("sub_1",), attempts_made=5)
    raw = delivery_message(owed, headers=delivery_entry_headers(owed, note))
    await worker.outbox.park_delivery(owed, ParkReason.EXHAUSTED, "HTTP 503")
    assert len(worker.record.entries) == 1
    overflow = DeadLetters(worker.context, MemoryArchive())
    running = asyncio.create_task(overflow.run())

    overflow.offer(Incoming(raw, FakeTicket(worker.journal, "expired")), expired=True)
    await settled()
    running.cancel()

    assert worker.record.entries == {}
