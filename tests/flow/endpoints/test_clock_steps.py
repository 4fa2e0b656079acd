"""The wall clock is set while deliveries wait: back and forward, by an hour and by days (fault 82)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.endpoint.breaker import Open
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import OutcomeKind, ParkReason
from consumer.core.subscription.subscription import endpoint_id
from consumer.flow.endpoints.agreement import Agreement
from consumer.ports import Source
from tests.support.fakes import START, run_virtually
from tests.support.fakes_sender import Reply
from tests.support.worker import LoopBack, Worker, delivery_message, event, event_message

HOUR, DAY = 3600.0, 86_400.0
STEPS = (-DAY, -HOUR, HOUR, DAY)
SHOP = "https://shop.example/"
SLACK_S = 1.3  #: the shortest rung, the broker's lag, and a look that is held for a second
RETRY_4 = {"base_s": 4, "multiplier": 1, "max_s": 4, "jitter": 0.1}
NO_BREAKER = {"failures": 0}


async def busy(worker: Worker, count: int = 100, **fields: object) -> LoopBack:
    """Let *count* deliveries fail once; then their endpoint is well, and they wait."""
    loop_back = LoopBack(worker, lag_s=0.003)
    await worker.subscribe("shop", **{"breaker": NO_BREAKER, "retry": RETRY_4, "concurrency": 200} | fields)
    worker.sender.on(SHOP, *[Reply(status=503)] * count, Reply())
    for number in range(count):
        worker.offer(event_message(message_id=f"ord-{number}"))
    await worker.clock.advance(0.5)
    return loop_back


@pytest.mark.parametrize("step_s", STEPS)
async def test_retries_come_when_they_were_due(worker: Worker, step_s: float) -> None:
    """Fault 82: a hundred retries due in 4 s are sent in 4 s, wherever the clock is set meanwhile."""
    loop_back = await busy(worker)
    worker.clock.step_s += step_s

    await loop_back.run_dry()

    times = [at for _, at in worker.sender.started]
    assert len(times) == 200
    assert max(times) < 4 * 1.1 + SLACK_S
    assert min(times[100:]) >= 4.0, "the rung's time is served in any case"
    assert worker.parked() == []
    assert worker.bugs() == []


@pytest.mark.parametrize("step_s", STEPS)
async def test_deliveries_held_in_hand_go_on_time(worker: Worker, step_s: float) -> None:
    """Fault 82: a delivery that is held here waits for the rest of its wait, by the monotonic clock."""
    shop = await worker.subscribe("shop")
    message = DeliveryMessage(
        event=event(), targets=(shop.id,), not_before=START + 0.9, wait_s=4.9, served_s=4.0
    )
    worker.offer(delivery_message(message), Source.DUE)
    await worker.clock.advance(0.1)
    worker.clock.step_s += step_s

    await worker.clock.advance(1.0)

    assert worker.sent("shop") == 1
    assert worker.publisher.confirmed == []


@pytest.mark.parametrize("step_s", [-HOUR, -DAY])
async def test_another_workers_clock_prolongs_no_wait(worker: Worker, step_s: float) -> None:
    """Fault 82: a worker whose clock is behind takes the deferred deliveries of another, even older one."""
    shop = await worker.subscribe("shop")
    loop_back = LoopBack(worker)
    worker.clock.step_s += step_s
    for number, served_s in enumerate((0.0, 4.0)):
        one = event(id=f"ord-{number}")
        message = DeliveryMessage(event=one, targets=(shop.id,), not_before=START, wait_s=4.2)
        worker.offer(delivery_message(replace(message, served_s=served_s)), Source.DUE)

    await loop_back.run_dry()

    newer, older = sorted(at for _, at in worker.sender.started)
    assert newer == pytest.approx(0.2, abs=0.05)
    assert older == pytest.approx(4.2, abs=0.3), "without its header no more than the wait again"


@pytest.mark.parametrize("step_s", STEPS)
async def test_an_open_breaker_keeps_its_cooldown(worker: Worker, step_s: float) -> None:
    """Fault 82: the probe goes when the cooldown is over, and nothing is parked untried meanwhile."""
    loop_back = await busy(worker, 5, breaker={"failures": 5, "cooldown_s": 30})
    [shop] = worker.subscriptions.match("acme", "order.created")
    opened = worker.endpoint(shop).breaker
    assert isinstance(opened, Open)
    for number in range(20):
        worker.offer(event_message(message_id=f"new-{number}"))
    await worker.clock.advance(1.0)
    worker.clock.step_s += step_s

    await loop_back.run_dry()

    times = [at for _, at in worker.sender.started][5:]
    assert len(times) == 25
    assert opened.until - START <= times[0] <= opened.until - START + 5
    assert times[-1] <= opened.until - START + 60
    assert worker.parked() == []


@pytest.mark.parametrize("step_s", STEPS)
async def test_a_retry_after_is_kept(worker: Worker, step_s: float) -> None:
    """Faults 39, 82: nothing is sent earlier than it asked, nor much later, by the monotonic clock."""
    await worker.subscribe("shop", concurrency=100)
    loop_back = LoopBack(worker)
    worker.sender.on(SHOP, Reply(status=429, retry_after="100"), Reply())
    await worker.handle(event_message())
    worker.offer(event_message(message_id="ord-2"))
    await worker.clock.advance(5.0)
    worker.clock.step_s += step_s

    await loop_back.run_dry()

    _, *others = (at for _, at in worker.sender.started)
    assert len(others) == 2
    assert all(100.0 <= at <= 103.0 for at in others)


async def test_one_that_is_never_let_go_ends_although_the_clock_jumped(worker: Worker) -> None:
    """Fault 82: held by hand for good, it ends untried: at most as much later as it had left."""
    shop = await worker.subscribe("shop", retry={"max_age_s": 600})
    worker.endpoints.force(shop)
    loop_back = LoopBack(worker)
    worker.offer(event_message())
    await worker.clock.advance(90.0)
    worker.clock.step_s += DAY

    await loop_back.run_dry(look_s=5)

    [entry] = worker.parked()
    assert (entry.reason, worker.sent("shop")) == (ParkReason.EXPIRED, 0)
    assert 500 < worker.clock.monotonic() < 1300


@pytest.mark.parametrize("held", [0.0, 500.0])
async def test_one_that_the_jump_made_old_is_tried_once(worker: Worker, held: float) -> None:
    """Fault 82: tried once more, then parked expired; also one with several targets."""
    shops = await worker.subscribe_all("shop", "crm", breaker=NO_BREAKER)
    loop_back = LoopBack(worker)
    worker.sender.on(SHOP, Reply(status=503))
    message = DeliveryMessage(
        event=event(), targets=tuple(s.id for s in shops), not_before=START + held, wait_s=held, served_s=held
    )
    worker.clock.step_s += 3 * DAY
    worker.offer(delivery_message(message), Source.DUE)

    await loop_back.run_dry()

    assert (worker.sent("shop"), worker.sent("crm")) == (1, 1)
    [entry] = worker.parked()
    assert (entry.reason, entry.detail) == (ParkReason.EXPIRED, "HTTP 503")


async def test_one_that_was_put_off_to_its_deadline_ends_there(worker: Worker) -> None:
    """S1-15: past its deadline nothing is sent: it waited until then to be parked."""
    shop = await worker.subscribe("shop")
    message = DeliveryMessage(
        event=event(arrived_at=START - DAY),
        targets=(shop.id,),
        not_before=START,
        wait_s=100.0,
        served_s=100.0,
    )

    await worker.handle(delivery_message(message), Source.DUE)

    assert worker.sent("shop") == 0
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED]


async def test_the_producers_expiration_counts_all_the_same(worker: Worker) -> None:
    """Fault 19: an event whose producer set an expiration is not sent after it."""
    shop = await worker.subscribe("shop")
    message = DeliveryMessage(event=event(expires_at=START + 60), targets=(shop.id,), not_before=START)
    worker.clock.step_s += HOUR

    await worker.handle(delivery_message(message), Source.DUE)

    assert worker.sent("shop") == 0
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED]


@pytest.mark.parametrize("step_s", STEPS)
async def test_a_step_during_the_request_ends_nothing(worker: Worker, step_s: float) -> None:
    """Fault 82: the first attempt fails while the clock is set: its retry comes, and comes in time."""
    await worker.subscribe("shop", breaker=NO_BREAKER, retry=RETRY_4)
    loop_back = LoopBack(worker)
    worker.sender.on(SHOP, Reply(status=503), Reply())
    worker.sender.latency_s[SHOP] = 2.0
    worker.offer(event_message())
    await worker.clock.advance(1.0)
    worker.clock.step_s += step_s

    await loop_back.run_dry()

    assert worker.parked() == []
    first, second = (at for _, at in worker.sender.started)
    assert 4.0 <= second - first - 2.0 <= 4.4 + SLACK_S


async def test_a_proxy_that_fails_beside_a_jump_is_not_asked_in_a_rush(worker: Worker) -> None:
    """Fault 82: a try that never reached the endpoint does not count; the next one waits like any other."""
    shop = await worker.subscribe("shop")
    loop_back = LoopBack(worker)
    worker.sender.on(SHOP, *[Reply(fault=OutcomeKind.PROXY)] * 5, Reply())
    worker.clock.step_s += 3 * DAY
    worker.offer(delivery_message(DeliveryMessage(event=event(), targets=(shop.id,))), Source.DUE)

    await loop_back.run_dry()

    times = [at for _, at in worker.sender.started]
    assert len(times) == 6
    assert min(later - earlier for earlier, later in pairwise(times)) >= 5.0


@pytest.mark.parametrize("days", [1.0, 6.0, 400.0])
async def test_a_jump_disables_nobody(worker: Worker, days: float) -> None:
    """SW-41, fault 82: an endpoint fails before and after the clock is set forward by days."""
    shop = await worker.subscribe("shop", breaker=NO_BREAKER)
    worker.sender.on(SHOP, Reply(status=503))
    for hours in (0.0, 13.0):
        worker.clock.passed_s += hours * HOUR
        await worker.handle(event_message(message_id=f"before-{hours}"))
    failing = worker.endpoint(shop).health.failing
    assert failing is not None
    assert failing.counts
    worker.clock.step_s += days * DAY

    await worker.handle(event_message(message_id="after"))

    assert worker.parked() == []
    assert worker.subscriptions.get(shop.id) == shop
    moved = worker.endpoint(shop).health.failing
    assert moved is not None
    assert moved.first_at - failing.first_at == pytest.approx(days * DAY)
    (_, told), *_ = reversed(worker.record.healths)
    assert told.failing == moved, "the store is told, for the worker that starts next"


# any history

TURN = st.one_of(
    st.tuples(st.just("event"), st.integers(1, 5)),
    st.tuples(st.just("pass"), st.integers(0, 40)),
    st.tuples(st.just("step"), st.sampled_from([*STEPS, 30 * DAY, -30 * DAY, 7.0, -7.0])),
)


@settings(max_examples=80)
@given(
    st.lists(TURN, max_size=25),
    st.lists(st.sampled_from([200, 503]), max_size=12),
    st.integers(1, 4),
)
def test_no_history_of_steps_delays_or_parks(
    turns: list[tuple[str, float]], replies: list[int], attempts: int
) -> None:
    """Fault 82: every retry within its own wait; nothing parked as expired, nothing disabled or lost."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker, lag_s=0.003)
        policy = {"base_s": 3, "max_s": 30, "max_attempts": attempts + 1}
        shop = await worker.subscribe("shop", breaker=NO_BREAKER, concurrency=100, retry=policy)
        worker.sender.on(SHOP, *(Reply(status=status) for status in replies), Reply())
        published = 0
        for what, much in turns:
            if what == "event":
                for _ in range(int(much)):
                    published += 1
                    worker.offer(event_message(message_id=f"ord-{published}"))
                await worker.clock.advance(0.001)
            elif what == "pass":
                await worker.clock.advance(much / 2)
            else:
                worker.clock.step_s += much
        await loop_back.run_dry(look_s=1)

        assert [e.reason for e in worker.parked() if e.reason is not ParkReason.EXHAUSTED] == []
        assert worker.subscriptions.get(shop.id) == shop
        assert all(ticket.settles == ["ack"] for ticket in worker.tickets)
        assert worker.bugs() == []
        _check_waits(worker, stepped=any(what == "step" for what, _ in turns))

    run_virtually(main)


def _check_waits(worker: Worker, *, stepped: bool) -> None:
    """Between two requests of one event is the wait that was chosen; answers take no time."""
    lines = worker.log.events("delivery.attempted")
    of = [dict(request.headers)["webhook-id"] for request in worker.sender.sent]
    times: dict[str, list[float]] = {}
    for name, (_, at) in zip(of, worker.sender.started, strict=True):
        times.setdefault(name, []).append(at)
    waits: dict[str, list[float]] = {}
    for line in lines:
        if line["verdict"] == "retry":
            waits.setdefault(str(line["event_id"]), []).append(float(str(line["wait_s"])))
    for name, starts in times.items():
        for began, after, wait_s in zip(starts, starts[1:], waits.get(name, []), strict=False):
            assert after - began <= wait_s + SLACK_S
            if not stepped:
                assert after - began >= wait_s - 0.002
        assert len(starts) == 1 + len(waits.get(name, []))


def test_an_attempt_remembers_the_clock_of_its_time() -> None:
    """The signed and the remembered time is the wall clock's, as receivers check it (SW-12)."""

    async def main() -> None:
        worker = Worker()
        await worker.subscribe("shop")
        await worker.handle(event_message())
        worker.clock.step_s -= DAY

        await worker.handle(event_message(message_id="ord-2"))

        stamps = [int(dict(request.headers)["webhook-timestamp"]) for request in worker.sender.sent]
        assert stamps == [int(START), int(START - DAY)]

    run_virtually(main)


@pytest.mark.parametrize("step_s", STEPS)
async def test_an_endpoint_met_just_after_a_step_is_held_no_longer(worker: Worker, step_s: float) -> None:
    """Fault 82: news and a reset that come before anybody looked at the clock again are of the new time."""
    shop = await worker.subscribe("shop")
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    here = endpoint_id("acme", SHOP)
    worker.endpoints.prior.remember_holds({here: START + 20.0})
    worker.endpoints.steady(worker.clock.now())
    worker.clock.step_s += step_s
    row = [shop.id, here, "open", 3, 10.0, 1, 0.0, 0.0, False, -1.0]

    talk.receive({"kind": "state", "worker": "w9", "news": [row]})

    met, now = worker.endpoint(shop), worker.clock.now()
    assert isinstance(met.breaker, Open)
    assert 10.0 <= met.breaker.until - now <= 12.0
    assert met.pace.held_until - now == pytest.approx(20.0)
    worker.clock.step_s += step_s
    worker.endpoints.reset(shop, worker.clock.now())
    assert met.reservations.is_void(worker.clock.now())
