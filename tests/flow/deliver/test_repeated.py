"""A repeated event id is sent once within the window, and nothing is lost for it.

Over several workers the history shows which events are settled; one that is owed is sent.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from consumer.core.history.records import Keep
from consumer.ports import Source
from tests.support.fakes_sender import Reply
from tests.support.fakes_store import MemoryHistory, MemorySettled
from tests.support.worker import SHOP, Worker, event_message


async def test_a_repeated_event_is_sent_once_within_the_window() -> None:
    """S1-15: acked, counted and not sent; off by default; after the window it is sent again."""
    for window_s, sent in ((60.0, 1), (0.0, 2)):
        worker = Worker(dedupe_window_s=window_s)
        await worker.subscribe("shop")

        tickets = [await worker.handle(event_message()) for _ in range(2)]

        assert worker.sent("shop") == sent
        assert [ticket.settles for ticket in tickets] == [["ack"], ["ack"]]
        assert worker.count("events_total", outcome="duplicate") == 2 - sent
        await worker.clock.advance(60.0)
        await worker.handle(event_message())
        assert worker.sent("shop") == sent + 1


async def test_an_event_that_the_broker_gives_again_is_no_duplicate() -> None:
    """S1-15, fault 57: without an ack, here after a lost broker, the second copy owes the deliveries."""
    worker = Worker(dedupe_window_s=60.0)
    await worker.subscribe("shop")
    worker.sender.on("https://shop.example/", Reply(status=503), Reply())
    worker.publisher.unbound = set("123456789")  # no rung takes the failed delivery
    first = worker.offer(event_message())
    await worker.clock.advance(1.0)
    first.dead = True
    worker.intake.forget_dead()
    await worker.clock.advance(60.0)
    worker.publisher.unbound = set()
    await worker.handle(event_message())

    assert worker.sent("shop") == 2
    assert worker.count("events_total", outcome="duplicate") == 0


async def test_other_ids_and_other_tenants_are_not_duplicates() -> None:
    """S1-15: the id counts within one tenant; an unmatched event does not count as seen."""
    worker = Worker(dedupe_window_s=60.0)
    await worker.handle(event_message())
    await worker.subscribe("shop")

    for message_id in ("ord-1", "ord-2"):
        await worker.handle(event_message(message_id=message_id), Source.LANE)

    assert worker.sent("shop") == 2


async def test_one_id_of_two_types_is_two_events() -> None:
    """S1-15: both types are sent; a suppressed event is logged at info."""
    worker = Worker(dedupe_window_s=60.0)
    await worker.subscribe("shop")

    for type_ in ("order.created", "order.paid", "order.paid"):
        await worker.handle(event_message(type=type_))

    assert worker.sent("shop") == 2
    [(level, fields)] = [(level, more) for level, name, more in worker.log.lines if name == "event.repeated"]
    assert (level, fields["type"]) == ("info", "order.paid")


async def test_only_an_event_that_goes_on_to_its_deliveries_is_noted_as_received() -> None:
    """S1-15: an event that is suppressed, or held behind the first one, adds no row to the history."""
    worker = Worker(dedupe_window_s=60.0)
    await worker.subscribe("shop")
    gate = asyncio.Event()
    worker.sender.on("https://shop.example/", Reply(gate=gate))
    worker.offer(event_message())
    worker.offer(event_message())
    await worker.clock.advance(5.0)
    gate.set()
    await worker.clock.advance(5.0)

    assert worker.count("events_total", outcome="duplicate") == 1
    assert [row.step for row in worker.history.rows] == ["received", "attempt"]


async def two_workers(**bounds: Any) -> tuple[Worker, Worker]:
    """Return two workers with one history and one subscription."""
    history = MemoryHistory()
    settled = MemorySettled(history)
    first, second = (
        Worker(dedupe_window_s=60.0, history=history, settled=settled, **bounds) for _ in range(2)
    )
    for worker in (first, second):
        await worker.subscribe("shop")
    return first, second


def steps(worker: Worker) -> list[str]:
    """Return the steps that were noted."""
    return [row.step for row in worker.history.rows]


@pytest.mark.parametrize("keep", [Keep.ALL, Keep.FAILURES])
@pytest.mark.parametrize("status", [200, 503])
async def test_an_event_that_another_worker_settled_is_not_sent_again(keep: Keep, status: int) -> None:
    """S1-15: acked and counted, whether it was delivered at once or waits for a retry."""
    first, second = await two_workers(keep=keep)
    first.sender.on(SHOP, Reply(status=status))
    await first.handle(event_message())
    assert steps(first)[-1] == "settled"

    tickets = [await second.handle(event_message()) for _ in range(2)]

    assert second.sent("shop") == 0
    assert [ticket.settles for ticket in tickets] == [["ack"], ["ack"]]
    assert second.count("events_total", outcome="duplicate") == 2
    assert steps(first).count("settled") == 1


async def test_an_event_that_was_received_and_not_settled_is_sent() -> None:
    """S1-15, fault 57: a worker that is killed during its request has noted only the arrival."""
    first, second = await two_workers()
    gate = asyncio.Event()
    first.sender.on(SHOP, Reply(gate=gate))
    first.offer(event_message())
    await first.clock.advance(5.0)
    assert steps(first) == ["received"]

    await second.handle(event_message())

    assert second.sent("shop") == 1
    assert second.count("events_total", outcome="duplicate") == 0
    gate.set()
    await first.clock.advance(5.0)


async def test_a_failed_delivery_that_no_broker_confirmed_is_sent() -> None:
    """S1-15, fault 57: the attempt and its retry are noted, and the retry is not in any queue."""
    first, second = await two_workers()
    first.sender.on(SHOP, Reply(status=503))
    first.publisher.unbound = set("123456789")  # no rung takes the failed delivery
    first.offer(event_message())
    await first.clock.advance(1.0)
    assert steps(first) == ["received", "attempt"]

    await second.handle(event_message())

    assert second.sent("shop") == 1
    first.publisher.unbound = set()
    await first.clock.advance(60.0)
    assert steps(first).count("settled") == 2


async def test_only_an_event_that_somebody_wants_is_looked_up() -> None:
    """S1-15: an unmatched event, and one that may kill workers, costs no look-up and settles nothing."""
    history = MemoryHistory()
    settled = MemorySettled(history)
    worker = Worker(dedupe_window_s=60.0, history=history, settled=settled)
    await worker.handle(event_message())
    await worker.subscribe("shop")
    await worker.handle(event_message(), Source.SUSPECT)

    assert settled.asked == 0
    assert "settled" not in steps(worker)


async def test_without_a_window_nothing_is_noted() -> None:
    """S1-15: off by default."""
    history = MemoryHistory()
    worker = Worker(history=history, settled=MemorySettled(history))
    await worker.subscribe("shop")

    await worker.handle(event_message())

    assert steps(worker) == ["received", "attempt"]
