"""Answers of a former URL never count for the new one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from consumer.core.model import Control, ParkReason
from consumer.ports import Source
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker, delivery_message, event_message

OLD, NEW = "https://shop.example/", "https://new.example/"


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ({"status": 410}, {}),
        ({"status": 404}, {"on_status": {"404": "disable"}}),
        ({"status": 503, "control": Control.DISABLE}, {}),
    ],
)
async def test_a_delivery_that_the_old_url_refused_is_tried_at_the_new_one(
    worker: Worker, reply: dict[str, Any], fields: dict[str, Any], loaded: bool
) -> None:
    """410, `on_status: disable` and `webhook-delivery: disable` of a request under way.

    Also where only the store knows the new URL yet.
    """
    gate = asyncio.Event()
    await worker.subscribe("shop", **fields)
    worker.sender.on(OLD, Reply(gate=gate, **reply))
    ticket = worker.offer(event_message())
    await worker.sender.arrived(1)

    await worker.move("shop", NEW, loaded=loaded)
    gate.set()
    await worker.intake.idle()
    [again] = worker.waiting()
    await worker.handle(delivery_message(again), Source.DUE)

    assert worker.parked() == []
    assert ticket.settles == ["ack"]
    assert [request.url for request in worker.sender.sent] == [OLD, NEW]
    assert (again.attempts_made, again.attempts[-1].status) == (1, reply["status"])
    await worker.subscriptions.settle()
    assert (await worker.store.entries())[0].enabled
    assert worker.bugs() == []


async def test_a_refusal_of_the_same_url_still_disables(worker: Worker) -> None:
    """Fault 38: a change of anything else while the request was under way is no move."""
    gate = asyncio.Event()
    await worker.subscribe("shop")
    worker.sender.on(OLD, Reply(status=410, gate=gate))
    worker.offer(event_message())
    await worker.sender.arrived(1)

    await worker.move("shop", OLD, loaded=False, timeout_s=5)
    gate.set()
    await worker.intake.idle()

    assert [entry.reason for entry in worker.parked()] == [ParkReason.DISABLED]
    await worker.subscriptions.settle()
    assert not (await worker.store.entries())[0].enabled
