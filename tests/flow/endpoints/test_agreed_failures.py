"""Workers agree how long an endpoint has failed, and on decisions by hand."""

from __future__ import annotations

import pytest

from consumer.core.endpoint.agreement import BEAT_S
from consumer.core.endpoint.breaker import Open
from consumer.core.endpoint.health import Failing, Health, merged
from consumer.core.model import ParkReason
from consumer.core.subscription.subscription import endpoint_id
from tests.support.fakes import START, settled
from tests.support.fakes_sender import Reply
from tests.support.flow.agreeing_workers import HOUR, URL, crew, fail_after, failings
from tests.support.worker import Worker, event_message


async def test_days_of_failure_count_over_all_workers() -> None:
    """SW-41, decision 16: five days of failure count, even where each worker had only a part of them."""
    async with crew(2) as two:
        for step in range(20):
            await fail_after(two, int(step >= 10), 6.0)
        known = failings(two)
        assert [f is not None and f.counts for f in known] == [True, True]
        assert [f.first_at for f in known if f is not None] == [pytest.approx(START + 6 * HOUR, abs=1)] * 2
        assert all(w.parked() == [] for w in two.workers)

        await fail_after(two, 1, 6.0)

        [entry] = two.workers[1].parked()
        assert entry.reason is ParkReason.DISABLED
        assert entry.detail.startswith("every attempt failed for 5 days: HTTP 503")


async def test_a_success_anywhere_ends_the_failures_everywhere() -> None:
    """SW-41, decision 16: after a success at one worker no worker counts on, and the store has it."""
    async with crew(2) as two:
        await fail_after(two, 0, 0.0)
        await fail_after(two, 0, 13.0)
        assert None not in failings(two)
        two.workers[1].sender.on(URL, Reply())

        await two.workers[1].handle(event_message(message_id="well"))
        await settled()

        assert failings(two) == [None, None]
        notes = [health for worker in two.workers for _, health in worker.record.healths]
        joined = merged(*notes)
        assert joined.failing is None
        assert joined.taken_at == pytest.approx(START + 13 * HOUR)


async def test_a_worker_that_alone_cannot_reach_an_endpoint_is_contradicted() -> None:
    """Decision 16: a worker whose own network fails learns of others' successes and disables nothing."""
    async with crew(2) as two:
        two.workers[1].sender.on(URL, Reply())
        await fail_after(two, 0, 0.0)
        await fail_after(two, 1, 6.0)

        await fail_after(two, 0, 7.0)

        assert failings(two) == [None, None]


async def test_a_short_failure_is_not_announced() -> None:
    """An endpoint that fails and recovers all the time costs neither messages nor writes."""
    async with crew(2) as two:
        two.workers[0].sender.on(URL, *[Reply(status=503), Reply()] * 20)
        for _ in range(20):
            await fail_after(two, 0, 0.1)

        assert two.workers[0].record.healths == []
        assert two.workers[0].endpoints.announcements.take_due() == set()


async def test_a_restart_forgets_no_failures(worker: Worker) -> None:
    """SW-41, decision 16: the failures in the store count on; the first failure after five days disables."""
    [shop] = await worker.subscribe_all("shop")
    since = START - 5 * 24 * HOUR
    worker.endpoints.prior.remember((), {endpoint_id("acme", URL): Health(Failing(since, counts=True))})
    worker.sender.on(URL, Reply(status=503))

    await worker.handle(event_message())

    assert [entry.reason for entry in worker.parked()] == [ParkReason.DISABLED]
    assert worker.subscriptions.get(shop.id) != shop


async def test_forced_open_holds_every_worker_until_the_reset() -> None:
    """A worker that starts later is held, too; no probe goes, and each delivery asks again in a minute."""
    async with crew(count=2, begun=1) as two:
        for worker in two.workers:
            worker.sender.on(URL, Reply())
        two.workers[0].endpoints.force(two.shops[0])
        await settled()
        await two.begin(1)
        await two.workers[0].clock.advance(3600.0)

        for worker in two.workers:
            await worker.handle(event_message(message_id="held"))

        assert two.states() == ["open", "open"]
        assert two.sent() == 0
        waits = [m.not_before - w.clock.now() for w in two.workers for m in w.waiting()]
        assert waits == [pytest.approx(60.0)] * 2
        assert two.workers[0].record.states[-1][1] == "forced"
        two.workers[0].endpoints.reset(two.shops[0], two.workers[0].clock.now())
        await settled()
        assert two.states() == ["closed", "closed"]


async def test_a_worker_that_missed_a_decision_by_hand_does_not_outrank_it() -> None:
    """The message to one worker is lost; the breaker of that worker opens, probes and opens again."""
    async with crew(2) as two:
        await two.fail(0)
        two.lost = lambda _from, _to: True
        two.workers[0].endpoints.force(two.shops[0])
        for step in range(3):
            await two.workers[0].clock.advance(320.0)
            await two.workers[1].handle(event_message(message_id=f"probe-{step}"))
        assert two.workers[1].sent("shop") == 3

        two.lost = lambda _from, _to: False
        await two.workers[0].clock.advance(2 * BEAT_S)

        assert [
            getattr(w.endpoint(s).breaker, "forced", False)
            for w, s in zip(two.workers, two.shops, strict=True)
        ] == [
            True,
            True,
        ]


async def test_an_endpoint_that_takes_only_probes_is_left_alone_by_all() -> None:
    """After the success of a probe, two more failures open the breakers of all, not five."""
    async with crew() as four:
        await four.fail(0)
        await four.workers[0].clock.advance(31.6)
        for worker in four.workers:
            worker.sender.on(URL, Reply(), Reply(status=503))
        await four.workers[0].handle(event_message(message_id="probe"))
        await settled()
        assert four.states() == ["closed"] * 4
        worker, shop = four.workers[2], four.shops[2]
        worker.sender.on(URL, Reply(status=503))
        began, number = four.sent(), 0

        while worker.endpoint(shop).state == "closed":
            number += 1
            await worker.clock.advance(4.1)
            await worker.handle(event_message(message_id=f"rest-{number}"))
        await settled()

        assert four.sent() - began == 2
        assert four.states() == ["open"] * 4
        assert all(isinstance(w.endpoint(shop).breaker, Open) for w in four.workers)
        assert [getattr(w.endpoint(shop).breaker, "openings", 0) for w in four.workers] == [2] * 4
