"""Fault 95: publishes that were abandoned and repeated all become valid; each attempt is still made once."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.parked import read_entry
from consumer.flow.deliver.unstored import KEPT_MAX
from consumer.ports import Source
from tests.support.fakes import FakeTicket, Published, run_virtually, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import DUE, SHOP, LoopBack, Worker, event_message

RETRY = {"max_attempts": 12, "base_s": 1.0, "multiplier": 1, "max_s": 2.0, "jitter": 0}
NO_BREAKER = {"failures": 0}


@settings(max_examples=25)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.sampled_from([0.0, 0.0001, 0.3, 5.0]))
def test_copies_of_delivery_messages_make_no_request(copies: list[int], apart_s: float) -> None:
    """However many copies of each message come back, together or apart: as many requests as attempts."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker)
        shop = await worker.subscribe("shop", retry=dict(RETRY), breaker=dict(NO_BREAKER))
        worker.sender.on(shop.url, *[Reply(status=503)] * 100)
        worker.sender.latency_s[shop.url] = 0.2
        pending = list(copies)
        once = worker.publisher.on_confirmed

        def copied(published: Published) -> None:
            once(published)
            number = pending.pop() if pending and published.key.endswith(DUE) else 0
            for copy in range(1, number + 1):
                asyncio.get_running_loop().call_later(copy * apart_s, once, published)

        worker.publisher.on_confirmed = copied
        await worker.handle(event_message())
        await asyncio.sleep(60)
        await loop_back.run_dry()

        assert worker.sent("shop") == RETRY["max_attempts"]
        assert len(worker.publisher.to("parked.")) == 1
        assert worker.count("repeated_deliveries_total") == sum(copies[-11:])

    run_virtually(main)


async def test_an_attempt_is_not_repeated_when_its_message_comes_again(worker: Worker) -> None:
    """No rung confirms, and the source's channel closes: the result is stored when the source comes again."""
    await worker.subscribe("shop", retry=dict(RETRY), breaker=dict(NO_BREAKER))
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.faults = [BrokerUnavailable("no quorum")] * 3
    first = worker.offer(event_message())
    await settled()
    first.dead = True
    worker.intake.forget_dead()
    await worker.clock.advance(30.0)
    assert first.settles == ["requeue"]

    ticket = await worker.handle(event_message(redelivered=True))

    assert worker.sent("shop") == 1
    assert ticket.settles == ["ack"]
    assert [message.attempts_made for message in worker.waiting()] == [1]


async def test_a_delivery_message_that_comes_again_makes_its_attempt_once(worker: Worker) -> None:
    """The same for an attempt from a due queue; a success whose ack got lost is not sent again either."""
    shop = await worker.subscribe("shop", retry=dict(RETRY), breaker=dict(NO_BREAKER))
    worker.sender.on(SHOP, Reply(status=503), Reply())
    await worker.handle(event_message())
    due = worker.publisher.confirmed[0]
    await worker.clock.advance(1.5)
    worker.sender.latency_s[shop.url] = 1.0
    ticket = worker.offer(due.raw(queue=DUE), Source.DUE)
    await worker.clock.advance(0.5)
    ticket.dead = True  # the request goes on, and succeeds
    await worker.clock.advance(2.0)

    again = await worker.handle(due.raw(queue=DUE, redelivered=True), Source.DUE)

    assert worker.sent("shop") == 2
    assert again.settles == ["ack"]
    assert worker.count("repeated_deliveries_total") == 1


async def test_an_event_published_twice_is_still_sent_twice(worker: Worker) -> None:
    """Only a message that the broker gives out again can use a result, and each result counts once."""
    await worker.subscribe("shop", retry=dict(RETRY), breaker=dict(NO_BREAKER))
    tickets = list[FakeTicket]()
    for _ in range(2):
        tickets.append(worker.offer(event_message()))
        tickets[-1].dead = True
        await worker.clock.advance(1.0)
    assert worker.sent("shop") == 2

    await worker.handle(event_message())
    assert worker.sent("shop") == 3
    await worker.handle(event_message(redelivered=True))
    await worker.handle(event_message(redelivered=True))
    assert worker.sent("shop") == 4


async def test_no_parked_entry_is_doubled_by_copies(worker: Worker) -> None:
    """Copies of the last message park nothing more; a replay of the entry starts anew."""
    await worker.subscribe("shop", retry=RETRY | {"max_attempts": 2}, breaker=dict(NO_BREAKER))
    worker.sender.on(SHOP, *[Reply(status=503)] * 9)
    await worker.handle(event_message())
    await worker.clock.advance(2.0)
    due = worker.publisher.confirmed[0]
    for _ in range(4):
        await worker.handle(due.raw(queue=DUE), Source.DUE)

    assert worker.sent("shop") == 2
    reasons = Counter(read_entry(each.raw()).reason.value for each in worker.publisher.to("parked."))
    assert reasons == {"exhausted": 1}
    assert KEPT_MAX > 1_000
