"""Failed deliveries: their waits and budgets, and endpoints that are disabled after days of failure."""

from __future__ import annotations

import pytest

from consumer.core.model import Attempt, OutcomeKind, ParkReason
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    SHOP,
    Worker,
    delivery_message,
    due,
    event_message,
)


async def test_a_deferred_target_spends_no_attempt(worker: Worker) -> None:
    """A saturated endpoint: its delivery message has no attempt and comes back at the endpoint's pace."""
    shop = await worker.subscribe("shop", concurrency=1)
    worker.sender.latency_s[SHOP] = 0.9
    for n in range(10):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    waiting = worker.waiting()

    assert worker.sender.peaks[SHOP] == 1
    assert len(waiting) + worker.sent("shop") == 10
    assert {m.attempts_made for m in waiting} == {0}
    assert {m.targets for m in waiting} == {(shop.id,)}
    assert len({m.not_before for m in waiting}) == len(waiting)


async def fail_for_days(worker: Worker, days: int, status: int = 500) -> None:
    """Send an event every six hours to an endpoint that fails."""
    for n in range(4 * days + 1):
        worker.sender.on(SHOP, Reply(status=status))
        await worker.handle(event_message(message_id=f"bad-{worker.clock.now():.0f}"))
        if n < 4 * days:
            await worker.clock.advance(6 * 3600)


async def test_five_days_of_failures_disable(worker: Worker) -> None:
    """SW-41: the delivery that failed last is parked `disabled`, new events are unmatched."""
    shop = await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 4)
    assert worker.parked() == []
    await worker.clock.advance(6 * 3600)

    await fail_for_days(worker, 1)

    (entry,) = worker.parked()
    assert entry.reason is ParkReason.DISABLED
    assert "every attempt failed for 5 days" in entry.detail
    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert not known.enabled
    sent, unmatched = worker.sent("shop"), worker.count("events_total", outcome="unmatched")
    await worker.handle(event_message(message_id="later"))
    assert worker.sent("shop") == sent
    assert worker.count("events_total", outcome="unmatched") == unmatched + 1


async def test_one_success_in_five_days_keeps_it(worker: Worker) -> None:
    """SW-41: only nothing but failures disables; so does 0 days never."""
    await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 4)
    worker.sender.on(SHOP, Reply())
    await worker.handle(event_message(message_id="good"))
    await fail_for_days(worker, 4)

    assert worker.parked() == []


async def test_an_endpoint_that_is_enabled_again_begins_anew(worker: Worker) -> None:
    """After an explicit enable the first failure does not disable it again."""
    shop = await worker.subscribe("shop", breaker={"failures": 0})
    await fail_for_days(worker, 5)
    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert not known.enabled
    await worker.subscriptions.settle()
    await worker.store.apply(worker._entries, enable=True)
    assert await worker.subscriptions.reload()

    await fail_for_days(worker, 1)

    known = worker.subscriptions.get(shop.id)
    assert known is not None
    assert known.enabled


async def test_a_retry_over_the_budget_is_postponed() -> None:
    """S0-10: over the budget of the endpoint, or of all, a retry waits longer; none is dropped."""
    for own, every in ((2, None), (None, 2)):
        worker = Worker(retry_budget=every)
        retry = {"base_s": 1, "jitter": 0} | ({} if own is None else {"budget": own})
        await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
        worker.sender.on(SHOP, *[Reply(status=500)] * 4)
        for n in range(4):
            await worker.handle(event_message(message_id=f"ord-{n}"))

        waits = [message.not_before - START for message in worker.waiting()]

        assert waits == pytest.approx([1, 1, 31, 61])


async def test_a_budget_never_carries_a_retry_past_its_age(worker: Worker) -> None:
    """S0-10, S1-15: postponed at most until the delivery ends, where it is parked."""
    retry = {"base_s": 1, "jitter": 0, "budget": 1, "max_age_s": 20}
    await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
    worker.sender.on(SHOP, Reply(status=500), Reply(status=500))
    for n in range(2):
        await worker.handle(event_message(message_id=f"ord-{n}"))

    assert [message.not_before - START for message in worker.waiting()] == pytest.approx([1, 20])


async def test_a_decorrelated_wait_looks_at_the_one_before(worker: Worker) -> None:
    """S0-10: an attempt at 0 s and one at 4 s: the next wait is from 1 to 12 s, and after that again less."""
    retry = {"base_s": 1, "jitter_kind": "decorrelated", "max_attempts": 9}
    shop = await worker.subscribe("shop", retry=retry, breaker={"failures": 0})
    worker.sender.on(SHOP, Reply(status=500))
    before = (
        Attempt(1, START - 6, OutcomeKind.HTTP_5XX, 500, 0.0),
        Attempt(2, START - 4, OutcomeKind.HTTP_5XX, 500, 0.0),
    )

    await worker.handle(delivery_message(due(shop.id, attempts=before, attempts_made=2)), Source.DUE)

    (waiting,) = worker.waiting()
    assert waiting.not_before - START == pytest.approx(1 + 0.5 * (12 - 1))


async def test_a_status_has_waits_of_its_own(worker: Worker) -> None:
    """S4-2: 429 waits longer than 500."""
    retry = {"base_s": 1, "jitter": 0, "by_status": {"429": {"base_s": 30}}}
    await worker.subscribe("shop", retry=retry)
    worker.sender.on(SHOP, Reply(status=500), Reply(status=429))
    for n in range(2):
        await worker.handle(event_message(message_id=f"ord-{n}"))

    assert [message.not_before - START for message in worker.waiting()] == pytest.approx([1, 30])
