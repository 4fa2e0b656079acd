"""One event for several endpoints: no endpoint waits for another, and the ack waits for all."""

from __future__ import annotations

from dataclasses import replace

from consumer.ports import Source
from tests.support.fakes import START, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    NAMES,
    SHOP,
    SLOW,
    Worker,
    delivery_message,
    due,
    event_message,
    slow,
)


async def test_more_than_a_hundred_targets_are_split_first() -> None:
    """250 targets become three delivery messages, confirmed, before any request (fault 72)."""
    worker = Worker()
    await worker.subscribe_all(*(f"shop{n}" for n in range(250)))

    ticket = await worker.handle(event_message())

    assert worker.sender.sent == []
    assert [len(m.targets) for m in worker.waiting()] == [100, 100, 50]
    assert len({target for m in worker.waiting() for target in m.targets}) == 250
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.due}
    assert worker.journal.words()[-1] == "ack"
    assert ticket.settles == ["ack"]


async def test_a_sibling_waits_for_no_confirm_and_the_ack_for_all(worker: Worker) -> None:
    """Decision 9: held targets are published beside the requests; the ack follows both, in any order."""
    slow_id = await slow(worker)
    await worker.subscribe("shop")
    worker.publisher.hang()

    first = worker.offer(event_message())
    await settled()

    assert worker.journal.words() == ["sending", "publishing", "answered"]
    assert first.settles == []
    worker.publisher.go_on()
    await worker.intake.idle()
    assert first.settles == ["ack"]
    worker.journal.clear()
    worker.sender.latency_s[SHOP] = 0.9

    await worker.handle(event_message(message_id="ord-2"))

    assert worker.journal.words() == ["sending", "publishing", "confirmed", "answered", "ack"]
    assert [m.targets for m in worker.waiting()] == [(slow_id,)] * 2


async def test_a_slow_sibling_never_holds_an_event(worker: Worker) -> None:
    """S2-6: the event is settled at once; the slow target goes through a due queue and spends no attempt."""
    slow_id = await slow(worker)
    await worker.subscribe("shop")
    began = worker.clock.monotonic()

    await worker.handle(event_message())

    assert worker.clock.monotonic() == began
    [waiting] = worker.waiting()
    assert (waiting.targets, waiting.attempts_made, waiting.attempts) == ((slow_id,), 0, ())
    assert worker.publisher.confirmed[0].publication.exchange == NAMES.due


async def test_a_probe_that_hangs_holds_up_no_siblings(worker: Worker) -> None:
    """Settle rule, fault 53, decision 9: it goes from a delivery message of its own; the event is acked."""
    await worker.subscribe("shop")
    slow_one = await worker.subscribe("slow", breaker={"failures": 1, "cooldown_s": 30})
    worker.sender.on(SLOW, Reply(status=503))
    await worker.handle(event_message(message_id="opens"))
    await worker.clock.advance(40)
    worker.sender.on(SLOW, Reply(hang=True))
    began = worker.clock.monotonic()

    ticket = await worker.handle(event_message(message_id="ord-2"))

    assert ticket.settles == ["ack"]
    assert worker.clock.monotonic() == began
    assert worker.sent("slow") == 1
    owed = worker.waiting()[-1]
    assert (owed.targets, owed.attempts_made) == ((slow_one.id,), 0)
    worker.offer(delivery_message(replace(owed, not_before=worker.clock.now())), Source.DUE)
    await settled()
    assert worker.sent("slow") == 2


async def test_a_slow_endpoint_alone_is_sent_from_its_delivery_message(worker: Worker) -> None:
    """As a delivery message of one target it is sent, however slow: it delays no other."""
    slow_id = await slow(worker)

    ticket = await worker.handle(delivery_message(due(slow_id, not_before=START)), Source.DUE)

    assert worker.journal.words() == ["sending", "answered", "ack"]
    assert ticket.settles == ["ack"]


async def test_failures_are_published_together_after_the_last_request(worker: Worker) -> None:
    """The first failure waits for the slowest quick sibling; then all are stored at once, then the ack."""
    for name, latency_s in (("a", 0.0), ("b", 0.5), ("c", 0.8), ("d", 0.3)):
        await worker.subscribe(name)
        worker.sender.latency_s[f"https://{name}.example/"] = latency_s
        worker.sender.on(f"https://{name}.example/", Reply(status=200 if name == "c" else 500))

    await worker.handle(event_message())

    publishing = worker.journal.places("publishing")
    assert len(publishing) == 3
    assert max(worker.journal.places("answered")) < min(publishing)
    assert max(publishing) < min(worker.journal.places("confirmed"))
    assert worker.journal.words()[-1] == "ack"
