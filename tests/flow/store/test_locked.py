"""Subscriptions whose secrets cannot be decrypted: nothing is sent unsigned, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from consumer.core.endpoint.admission import Hold, Send
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import ParkReason
from consumer.flow.base.context import Bounds
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.worker import Worker, delivery_message, event, event_message

FAULT = "the store's key is missing"


async def test_events_of_a_locked_subscription_are_parked(worker: Worker) -> None:
    """Fault 69: the others get theirs; a parked entry has the reason, and is replayed with the key back."""
    shop, _ = await worker.subscribe_all("shop", "crm")
    worker.store.locked.add(shop.id)
    assert await worker.subscriptions.reload()

    ticket = await worker.handle(event_message())
    [waiting] = worker.waiting()
    await worker.handle(delivery_message(waiting), Source.DUE)

    assert ticket.settles == ["ack"]
    assert (waiting.targets, waiting.attempts_made) == ((shop.id,), 0)
    assert (worker.sent("shop"), worker.sent("crm")) == (0, 1)
    [entry] = worker.parked()
    assert (entry.reason, entry.detail) == (ParkReason.LOCKED, FAULT)
    assert worker.count("parked_total", reason="locked") == 1
    assert worker.bugs() == []


async def test_waiting_deliveries_of_a_locked_subscription_are_parked(worker: Worker) -> None:
    """Fault 69: also deliveries that failed before; once the key is back a new event is sent."""
    shop = await worker.subscribe("shop")
    worker.store.locked.add(shop.id)
    assert await worker.subscriptions.reload()
    owed = DeliveryMessage(event=event(id="ord-7"), targets=(shop.id,), attempts_made=3)

    await worker.handle(delivery_message(owed), Source.DUE)

    assert [entry.reason for entry in worker.parked()] == [ParkReason.LOCKED]
    worker.store.locked.clear()
    assert await worker.subscriptions.reload()
    await worker.handle(event_message())
    assert worker.sent("shop") == 1


async def test_locked_subscriptions_are_reported_and_shown(worker: Worker) -> None:
    """Fault 69: one clear line for each, once; a gauge, and a note on `/readyz`."""
    shop, crm = await worker.subscribe_all("shop", "crm")
    worker.store.locked |= {shop.id, crm.id}
    for _ in range(3):
        assert await worker.subscriptions.reload()

    lines = worker.log.events("subscription.locked")
    assert [(line["tenant"], line["detail"]) for line in lines] == [("acme", FAULT)] * 2
    assert worker.count("subscriptions_locked") == 2
    [note] = worker.subscriptions.notes()
    assert "2" in note
    assert "acme" not in note

    worker.store.locked.clear()
    assert await worker.subscriptions.reload()
    assert (worker.count("subscriptions_locked"), worker.subscriptions.notes()) == (0, [])


async def test_a_request_that_waits_for_its_turn_is_called_off(worker: Worker) -> None:
    """Fault 69: admitted before, locked since: it is not signed with nothing."""
    shop = await worker.subscribe("shop", concurrency=1)
    endpoint = Endpoint(shop, Bounds())
    admission = endpoint.admit(START, fresh=True, reserved=False)
    assert isinstance(admission, Send)

    endpoint.rebind(replace(shop, keys=(), locked=FAULT))

    hold = endpoint.recall(admission.epoch, START)
    assert isinstance(hold, Hold)
    assert hold.reason == "locked"
    assert isinstance(endpoint.admit(START, fresh=False, reserved=True), Hold)
