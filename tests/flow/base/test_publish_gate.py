"""A forced end: publishes that began are confirmed and acked, and none begins."""

from __future__ import annotations

import asyncio

from consumer.flow.base.publish_gate import BEGUN_S, CONFIRM_S, PublishGate
from tests.support.fakes import settled
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker, event_message

SHOP = "https://shop.example/"


async def nothing() -> None:
    """Flush nothing."""


async def test_an_entry_in_work_is_acked_and_later_ones_are_not_begun(worker: Worker) -> None:
    """A request that ends within the last moment stores nothing any more."""
    late = asyncio.Event()
    await worker.subscribe("shop", retry={"max_attempts": 1})
    worker.sender.on(SHOP, Reply(status=503), Reply(status=503, gate=late))
    worker.publisher.hang()
    first = worker.offer(event_message(message_id="first"))
    second = worker.offer(event_message(message_id="second"))
    await worker.sender.arrived(2)
    await settled()

    ending = asyncio.ensure_future(worker.context.gate.last_moment(nothing))
    await settled()
    late.set()
    await settled()
    worker.publisher.go_on()
    await ending

    assert (first.settles, second.settles) == (["ack"], [])
    assert len(worker.parked()) == 1


async def test_a_broker_that_confirms_nothing_holds_up_nobody() -> None:
    """Faults 58, 63: the time is bounded, for all publishes under way."""
    gate, loop = PublishGate(), asyncio.get_running_loop()
    await gate.enter()
    stuck = asyncio.ensure_future(gate.publish(asyncio.sleep(3_600)))
    await settled()
    began = loop.time()

    await gate.last_moment(nothing)

    assert loop.time() - began <= BEGUN_S + CONFIRM_S + 0.01
    stuck.cancel()
