"""Events about an endpoint go to the exchange, and as webhooks to the tenant leveret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.core.model import ParkReason
from consumer.flow.operator_events import LOOK_S, OperatorEvents
from consumer.ports import Source
from tests.support.fakes import settled
from tests.support.fakes_sender import Reply
from tests.support.worker import DUE, NAMES, Worker, event_message

URL = "https://shop.example/"


@asynccontextmanager
async def telling(worker: Worker) -> AsyncIterator[OperatorEvents]:
    """Run the teller of a worker."""
    ops = OperatorEvents(worker.context, worker.subscriptions)
    task = asyncio.create_task(ops.run())
    try:
        yield ops
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def told(worker: Worker, exchange: str = NAMES.ops) -> list[str]:
    """Return the types of the events that were published there."""
    return [p.key for p in worker.publisher.confirmed if p.publication.exchange == exchange]


async def test_breakers_parked_and_disabled_are_reported(worker: Worker) -> None:
    """Opened, closed, parked, disabled, recovered, each by the worker that saw it."""
    breaker = {"failures": 1, "cooldown_s": 1}
    await worker.subscribe("shop", breaker=breaker)
    worker.sender.on(URL, Reply(status=503), Reply(status=200), Reply(status=410))
    async with telling(worker):
        for step in range(3):
            await worker.handle(event_message(message_id=f"e{step}"))
            await worker.clock.advance(2.0)
        before = told(worker)
        await worker.store.apply(worker._entries, prune=True, enable=True)
        await worker.subscriptions.settle()
        await worker.store.apply(worker._entries, prune=True, enable=True)
        assert await worker.subscriptions.reload()
        await worker.clock.advance(2 * LOOK_S)

    assert before == ["breaker.opened", "breaker.closed", "endpoint.disabled", "delivery.parked"]
    assert told(worker)[4:] == ["endpoint.recovered"]
    assert told(worker, NAMES.events) == []
    assert {
        p.publication.mandatory for p in worker.publisher.confirmed if p.publication.exchange == NAMES.ops
    } == {False}


async def test_the_tenant_leveret_gets_webhooks(worker: Worker) -> None:
    """S2-5: an exhausted delivery notifies an administrator: a delivery to the tenant leveret.

    It goes past the lanes, to a queue that no publisher writes to (fault 89).
    """
    await worker.subscribe("desk", tenant="leveret", events=["delivery.*"])
    async with telling(worker) as ops:
        ops.note(
            Note(
                type=OperatorEventType.DELIVERY_PARKED, tenant="acme", subject="sub_1", reason="exhausted: x"
            )
        )
        ops.note(Note(type=OperatorEventType.BREAKER_OPENED, tenant="acme", subject="sub_1"))
        await worker.clock.advance(2 * LOOK_S)

    assert told(worker, NAMES.events) == []
    [owed] = [p for p in worker.publisher.confirmed if p.publication.exchange == NAMES.due]
    assert json.loads(owed.publication.body)["reason"] == "exhausted: x"
    await worker.handle(owed.raw(queue=DUE), Source.DUE)
    assert worker.sent("desk") == 1


@pytest.mark.parametrize("source", [Source.LANE, Source.SPILL, Source.INBOX])
async def test_nobody_else_speaks_for_leveret(worker: Worker, source: Source) -> None:
    """Fault 89: an event that names the tenant is parked with the reason, by whichever queue it comes."""
    await worker.subscribe("desk", tenant="leveret")
    queue = {Source.LANE: NAMES.died, Source.SPILL: NAMES.spill(0), Source.INBOX: NAMES.inbox("erp")}[source]

    await worker.handle(event_message(tenant="leveret", routing_key="breaker.opened", queue=queue), source)

    assert worker.sent("desk") == 0
    [entry] = worker.parked()
    assert (entry.reason, "reserved for operational events" in entry.detail) == (ParkReason.BAD_TENANT, True)


async def test_the_administrators_own_trouble_does_not_go_round(worker: Worker) -> None:
    """An entry of the tenant leveret is reported on the exchange alone."""
    await worker.subscribe("desk", tenant="leveret")
    async with telling(worker) as ops:
        ops.note(Note(type=OperatorEventType.DELIVERY_PARKED, tenant="leveret", subject="sub_1"))
        await worker.clock.advance(2 * LOOK_S)

    assert (told(worker), told(worker, NAMES.due)) == (["delivery.parked"], [])


async def test_an_event_that_cannot_be_published_now_is_published_later(worker: Worker) -> None:
    """A broker that is away delays the news and holds up no delivery."""
    worker.publisher.connected = False
    async with telling(worker) as ops:
        ops.note(Note(type=OperatorEventType.TENANT_NOISY, tenant="acme"))
        await worker.clock.advance(2 * LOOK_S)
        assert told(worker) == []
        worker.publisher.connected = True
        await worker.clock.advance(2 * LOOK_S)

    assert told(worker) == ["tenant.noisy"]
    assert worker.count("ops_events_total") == 1


async def test_open_sums_are_reported_at_the_end(worker: Worker) -> None:
    """S2-5: a clean stop within the minute loses no count."""
    ops = OperatorEvents(worker.context, worker.subscriptions)
    for _ in range(3):
        ops.note(Note(type=OperatorEventType.DELIVERY_PARKED, tenant="acme", subject="sub_1"))

    await ops.finish()

    bodies = [json.loads(p.publication.body) for p in worker.publisher.confirmed]
    assert [body["data"]["count"] for body in bodies] == [1, 2]


async def test_each_is_reported_once_by_two_workers(worker: Worker) -> None:
    """A stop comes while the broker has not confirmed yet."""
    ops = OperatorEvents(worker.context, worker.subscriptions)
    ops.note(Note(type=OperatorEventType.BREAKER_OPENED, tenant="acme", subject="sub_1"))
    worker.publisher.hang()
    both = asyncio.gather(ops.flush(), ops.finish())
    await settled()
    worker.publisher.go_on()
    await both

    assert told(worker) == ["breaker.opened"]
    assert worker.count("ops_events_total") == 1
