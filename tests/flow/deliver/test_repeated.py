"""A repeated event id is sent once within the window, and nothing is lost for it."""

from __future__ import annotations

import asyncio

from consumer.ports import Source
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker, event_message


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
