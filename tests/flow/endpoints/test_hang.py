"""Held deliveries come back soon after their endpoint is well, for any reason of the hold (fault 83)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from consumer.core.endpoint.reservations import AHEAD_S, LOOK_S
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import entry_as_dict
from consumer.core.model import OutcomeKind
from consumer.core.subscription.subscription import Subscription
from consumer.ports import Source
from tests.support.fakes import START, run_virtually
from tests.support.fakes_sender import Reply
from tests.support.worker import LoopBack, Worker, delivery_message, event, event_message

URL = "https://shop.example/"
HANGS = Reply(hang=True)
FAILS = Reply(status=503)
SOON_S = LOOK_S + 5  #: one check, and the additional wait of the ladder


@pytest.mark.parametrize("slots", [1, 16])
def test_an_endpoint_that_was_only_slow_is_sent_the_rest_soon(slots: int) -> None:
    """It never fails: each answer takes just less than the time-out, then 10 ms. No breaker notices it."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker)
        await worker.subscribe("shop", concurrency=slots, timeout_s=15)
        worker.sender.latency_s[URL] = 14.0
        for number in range(600):
            worker.offer(event_message(message_id=f"e{number}"))
            await worker.clock.advance(0.1)
        worker.sender.latency_s[URL] = 0.01
        well_at = worker.clock.monotonic()
        await loop_back.run_dry()

        assert worker.sent("shop") == 600
        assert worker.sender.started[-1][1] - well_at <= SOON_S
        assert worker.parked() == []

    run_virtually(main)


class Held:
    """Deliveries that wait for one endpoint, and how they go on."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.loop_back = LoopBack(self.worker)
        self.shop: Subscription

    async def fill(self, count: int, *replies: Reply, **fields: Any) -> None:
        """Publish *count* events and let each be put off."""
        self.shop = await self.worker.subscribe("shop", **fields)
        self.worker.sender.on(URL, *replies, Reply())
        for number in range(count):
            self.worker.offer(event_message(message_id=f"e{number}"))
            await self.worker.clock.advance(0.01)

    async def change(self, **fields: Any) -> None:
        """Give the subscription other settings, as the next reload takes them over."""
        await self.worker.subscribe("shop", **fields)

    async def drained_s(self) -> float:
        """Let everything be delivered; return how long after now the last request was."""
        now = self.worker.clock.monotonic()
        await self.loop_back.run_dry()
        assert self.worker.parked() == []
        return self.worker.sender.started[-1][1] - now


def held(steps: Callable[[Held], Any]) -> None:
    """Run *steps* in virtual time."""

    async def main() -> None:
        await steps(Held())

    run_virtually(main)


def test_a_new_rate_applies_to_waiting_deliveries() -> None:
    """500 deliveries wait for their turns at one a second; at fifty a second they take ten seconds."""

    async def steps(queue: Held) -> None:
        await queue.fill(500, rate_per_s=1)
        await queue.worker.clock.advance(20.0)

        await queue.change(rate_per_s=50)

        assert await queue.drained_s() <= SOON_S + 10

    held(steps)


def test_a_shortened_cooldown_is_felt_by_what_waits() -> None:
    """The breaker was to stay open for an hour; now it is ten seconds, and the endpoint is well."""

    async def steps(queue: Held) -> None:
        breaker = {"failures": 2, "cooldown_s": 3600, "cooldown_max_s": 3600}
        await queue.fill(100, FAILS, FAILS, breaker=breaker, concurrency=1)
        await queue.worker.clock.advance(20.0)

        await queue.change(breaker=breaker | {"cooldown_s": 10, "cooldown_max_s": 10}, concurrency=1)

        assert await queue.drained_s() <= 10 + SOON_S

    held(steps)


@pytest.mark.parametrize(
    "replies", [[FAILS] * 2, [Reply(status=429, retry_after="3600")]], ids=["breaker", "Retry-After"]
)
def test_a_reset_applies_to_waiting_deliveries(replies: list[Reply]) -> None:
    """Even where the command could not reach the rungs: each looks within a minute."""

    async def steps(queue: Held) -> None:
        breaker = {"failures": 2, "cooldown_s": 3600, "cooldown_max_s": 3600}
        await queue.fill(100, *replies, breaker=breaker, concurrency=1)
        await queue.worker.clock.advance(20.0)

        queue.worker.endpoints.reset(queue.shop, queue.worker.clock.now())

        drained_s = await queue.drained_s()
        waits = [m for m in queue.worker.waiting() if m.attempts_made and m.wait_s > LOOK_S]
        assert drained_s <= (3600 if waits else SOON_S)
        late = [at for _, at in queue.worker.sender.started if at > 20 + SOON_S + 5]
        assert len(late) <= len(waits), "only what the endpoint itself asked to wait for"

    held(steps)


@pytest.mark.parametrize("step_s", [-3600.0, 86_400.0])
def test_a_clock_that_is_set_hides_no_freed_moment(step_s: float) -> None:
    """Faults 82, 83: the rate is raised after the wall clock was set; waiting deliveries get it too."""

    async def steps(queue: Held) -> None:
        await queue.fill(500, rate_per_s=1, retry={"max_age_s": 30 * 86_400})
        queue.worker.clock.step_s += step_s
        await queue.worker.clock.advance(20.0)

        await queue.change(rate_per_s=50, retry={"max_age_s": 30 * 86_400})

        assert await queue.drained_s() <= SOON_S + 10

    held(steps)


def test_a_lifted_pause_applies_to_waiting_deliveries() -> None:
    """However long it was paused."""

    async def steps(queue: Held) -> None:
        store, subscriptions = queue.worker.store, queue.worker.subscriptions
        await queue.fill(0)
        store.paused.add(queue.shop.id)
        assert await subscriptions.reload()
        for number in range(200):
            await queue.worker.handle(event_message(message_id=f"e{number}"))
        await queue.worker.clock.advance(600.0)
        assert queue.worker.sent("shop") == 0
        store.paused.clear()
        assert await subscriptions.reload()

        assert await queue.drained_s() <= SOON_S

    held(steps)


def test_turns_under_a_rate_stay_and_cost_little() -> None:
    """2,000 wait at ten a second for 200 s: each keeps its turn, and looks a few times on its way."""

    async def steps(queue: Held) -> None:
        await queue.fill(2_000, rate_per_s=10, concurrency=64)
        drained_s = await queue.drained_s()

        assert 150 <= drained_s <= 230
        assert len(queue.loop_back.deliveries) <= 5 * 2_000
        sent = [int(dict(r.headers)["webhook-id"][1:]) for r in queue.worker.sender.sent]
        assert max(abs(place - number) for place, number in enumerate(sent)) <= 60, "nearly in their order"

    held(steps)


def test_held_deliveries_come_within_a_minute_of_the_cooldown() -> None:
    """5,000 are put off by an endpoint with one slot that timed out: none waits longer."""

    async def steps(queue: Held) -> None:
        await queue.fill(5_000, *[HANGS] * 5, concurrency=1, timeout_s=2, breaker={"cooldown_s": 30})
        await queue.worker.clock.advance(0.1)

        waits = [m for m in queue.worker.waiting() if m.held]
        assert len(waits) >= 4_900
        due_s = 30 * 1.1
        assert max(m.wait_s for m in waits) <= due_s + AHEAD_S + 1

    held(steps)


async def test_an_entry_parked_untried_carries_the_last_failure_of_its_endpoint(worker: Worker) -> None:
    """S1-3: no attempt was made for it; the entry contains since when the breaker was open, and why."""
    await worker.subscribe("shop", retry={"max_age_s": 60}, breaker={"failures": 1}, timeout_s=2)
    worker.sender.on(URL, HANGS)
    await worker.handle(event_message(message_id="tried"))
    message = DeliveryMessage(
        event=event(id="late", arrived_at=START - 60),
        targets=(worker_shop(worker),),
        not_before=START,  # it was put off to its deadline
    )

    await worker.handle(delivery_message(message), Source.DUE)

    entry = worker.parked()[-1]
    shown = entry_as_dict(entry)
    assert "0 attempts; the breaker is open since 2023-11-14T22:13:2" in entry.detail
    assert entry.detail.endswith("; last failure: timeout_total")
    assert (shown["failed_attempts"], shown["last_failure_code"]) == (0, "timeout_total")
    assert str(shown["last_failure_at"]) >= "2023-11-14T22:13:22"
    assert entry.failure is not None
    assert entry.failure.kind is OutcomeKind.TIMEOUT_TOTAL
    assert worker.log.events("delivery.parked")[-1]["last_failure_code"] == "timeout_total"


async def test_an_own_attempt_counts_for_more(worker: Worker) -> None:
    """The entry of a delivery that was tried contains the result of its attempts."""
    shop = await worker.subscribe("shop", retry={"max_attempts": 1}, breaker={"failures": 0})
    worker.sender.on(URL, FAILS, HANGS)
    await worker.handle(event_message(message_id="one"))
    await worker.handle(event_message(message_id="two"))

    assert [entry_as_dict(e)["last_failure_code"] for e in worker.parked()] == ["503", "timeout_total"]
    assert {e.failure for e in worker.parked()} == {None}
    assert worker.endpoint(shop).last_failure is not None


def worker_shop(worker: Worker) -> str:
    """Return the id of the only subscription."""
    [subscription_id] = worker.subscriptions.ids()
    return subscription_id
