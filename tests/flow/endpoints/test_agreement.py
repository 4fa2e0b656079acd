"""Four workers between fakes, and one exchange that may lose their messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from consumer.core.endpoint.agreement import (
    ALIVE_S,
    BEAT_ENDPOINTS,
    BEAT_S,
    News,
    NewsKind,
    NewsMessage,
    encode,
)
from consumer.core.endpoint.breaker import Closed, Open, Probing
from consumer.core.message.records import EndpointState
from consumer.core.subscription.subscription import endpoint_id
from consumer.flow.endpoints.agreement import Agreement
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START, settled
from tests.support.fakes_sender import Reply
from tests.support.flow.agreeing_workers import BREAKER, URL, crew, share
from tests.support.worker import Worker, event_message


async def test_all_know_at_once_that_one_opened() -> None:
    """The failures at one worker spare the endpoint the failures at the other three."""
    async with crew() as four:
        await four.fail(0)
        await settled()

        for worker in four.workers:
            await worker.handle(event_message(message_id="later"))

        assert four.states() == ["open"] * 4
        assert four.epochs() == {1}
        assert four.sent() == 5


async def test_one_probe_for_all_and_its_success_closes_all() -> None:
    """The first worker with a delivery probes; the others wait for its news and start slowly."""
    async with crew() as four:
        await four.fail(0)
        await four.workers[0].clock.advance(31.6)  # the cooldown with its jitter is over for the opener
        for worker in four.workers:
            worker.sender.on(URL, Reply())
            worker.sender.latency_s[URL] = 1.0
        began = four.sent()

        tickets = [worker.offer(event_message(message_id="probe")) for worker in four.workers]
        await settled()

        assert four.states() == ["probing"] * 4
        assert four.sent() - began == 1
        await four.workers[0].clock.advance(1.1)
        assert four.states() == ["closed"] * 4
        assert [w.endpoint(s).pace.slow_s for w, s in zip(four.workers, four.shops, strict=True)] == [4.0] * 4
        assert all(ticket.settles == ["ack"] for ticket in tickets)


async def test_four_that_opened_together_probe_one_by_one() -> None:
    """Each had failures of its own before the news of the others; still there is one probe."""
    async with crew() as four:
        four.lost = lambda _from, _to: True
        for index in range(4):
            await four.fail(index)
        four.lost = lambda _from, _to: False
        await four.workers[0].clock.advance(2 * BEAT_S)
        assert four.states() == ["open"] * 4
        began = four.sent()

        for tenth in range(300):
            await four.workers[0].clock.advance(0.1)
            for worker in four.workers:
                worker.offer(event_message(message_id=f"held-{tenth}"))
        await settled()

        assert four.sent() - began == 1


async def test_a_worker_whose_own_network_fails_stops_nobody_else() -> None:
    """One worker cannot reach the endpoint and opens its breaker; the others send on."""
    async with crew() as four:
        for worker in four.workers[1:]:
            worker.sender.on(URL, Reply())
            await worker.handle(event_message(message_id="before"))
        await four.fail(0)
        await settled()

        for step in range(20):
            for worker in four.workers[1:]:
                await worker.handle(event_message(message_id=f"e{step}"))
            await four.workers[0].clock.advance(0.5)

        assert four.states() == ["open", "closed", "closed", "closed"]
        assert [worker.sent("shop") for worker in four.workers] == [5, 21, 21, 21]


async def test_a_worker_without_a_success_lets_another_one_probe() -> None:
    """Decision 15: after a probe that failed, another worker probes next; its success closes all."""
    async with crew(2) as two:
        two.workers[1].sender.on(URL, Reply())
        await two.fail(0)
        clock = two.workers[0].clock
        await clock.advance(31.6)
        await two.workers[0].handle(event_message(message_id="probe"))
        await clock.advance(2 * BEAT_S)
        assert two.states() == ["open", "open"]
        await clock.advance(57.0)
        began = two.sent()

        while two.sent() == began:
            for each in two.workers:
                await each.handle(event_message(message_id=f"next-{clock.now()}"))
            await clock.advance(0.1)

        assert two.workers[1].sent("shop") == 1
        assert two.states() == ["closed", "closed"]


async def test_a_lost_message_is_healed_by_the_next_beat() -> None:
    """Every beat repeats the recent changes."""
    async with crew() as four:
        four.lost = lambda _from, to: to == 3
        await four.fail(0)
        await settled()
        assert four.states() == ["open", "open", "open", "closed"]

        four.lost = lambda _from, _to: False
        await four.workers[0].clock.advance(BEAT_S)

        assert four.states() == ["open"] * 4


async def test_two_that_disagree_come_to_one_mind() -> None:
    """While parted, one opens and one is closed in a later epoch; afterwards the later epoch holds."""
    async with crew(2) as two:
        two.lost = lambda _from, _to: True
        await two.fail(0)
        await two.fail(1)
        first, second = (w.endpoint(s) for w, s in zip(two.workers, two.shops, strict=True))
        assert isinstance(first.breaker, Open)
        assert isinstance(second.breaker, Open)
        second.admission.breaker = Closed(epoch=second.breaker.epoch + 2)

        two.lost = lambda _from, _to: False
        await two.workers[0].clock.advance(2 * BEAT_S)

        assert two.states() == ["closed", "closed"]
        assert two.epochs() == {3}


async def test_a_worker_that_starts_late_asks() -> None:
    """A worker that starts late gets the news of all at once, and needs no five failures."""
    async with crew(count=2, begun=1) as two:
        await two.fail(0)
        await two.workers[0].clock.advance(1.0)

        await two.begin(1)
        await two.workers[1].handle(event_message(message_id="late"))

        assert two.states() == ["open", "open"]
        assert two.workers[1].sent("shop") == 0


async def test_a_worker_alone_begins_with_the_store(worker: Worker) -> None:
    """After a restart of all, an open breaker is open for the rest of its cooldown, and its epoch goes on."""
    [shop] = await worker.subscribe_all("shop", breaker=dict(BREAKER))
    worker.endpoints.prior.remember(
        [
            EndpointState(
                endpoint=endpoint_id("acme", URL),
                tenant="acme",
                subscription_id=shop.id,
                state="open",
                epoch=7,
                since=START - 10.0,
            )
        ],
        {},
    )

    await worker.handle(event_message())

    assert worker.endpoint(shop).breaker == Open(until=START + 20.0, epoch=7, since=START - 10.0)
    assert worker.observe.troubles.ajar == {shop.id: START - 10.0}
    assert worker.sent("shop") == 0
    assert worker.record.states == []


@pytest.mark.parametrize(("rest_s", "sent"), [(60.0, 0), (366 * 24 * 3600.0, 1)])
async def test_a_restart_does_not_end_a_retry_after(worker: Worker, rest_s: float, sent: int) -> None:
    """Fault 39, decision 16: a pause outlives the only worker; one beyond any `Retry-After` holds nothing."""
    await worker.subscribe_all("shop")
    worker.endpoints.prior.remember_holds({endpoint_id("acme", URL): START + rest_s})

    await worker.handle(event_message())

    assert worker.sent("shop") == sent
    assert all(waiting.not_before >= START + rest_s for waiting in worker.waiting())


async def test_a_clock_that_is_set_back_prolongs_nothing_elsewhere() -> None:
    """Fault 39: the rest of a pause is sent, also before any request, and a new pause afterwards."""
    async with crew(2) as two:
        first, second = two.workers
        for index, rest in enumerate(("60", "20")):
            first.sender.on(URL, Reply(status=429, retry_after=rest))
            await first.handle(event_message(message_id=f"busy-{index}"))
            first.clock.step_s -= 3600.0
            await first.clock.advance(5.0)  # beats

            left_s = second.endpoint(two.shops[1]).pace.held_until - second.clock.now()
            assert float(rest) - 10.0 < left_s <= float(rest) + 6.0
            await first.clock.advance(70.0)


async def test_a_pause_that_lasts_is_written_down_until_the_reset(worker: Worker) -> None:
    """Fault 39, decision 16: a pause of a minute goes to the store, one of 2 s does not; a reset ends it."""
    [shop] = await worker.subscribe_all("shop")
    worker.sender.on(URL, Reply(status=429, retry_after="2"), Reply(status=429, retry_after="60"))
    await worker.handle(event_message(message_id="moment"))
    await worker.clock.advance(3.0)
    assert worker.record.holds == []

    await worker.handle(event_message(message_id="minute"))

    [(name, until)] = worker.record.holds
    assert (name, round(until - worker.clock.now())) == ("shop", 60)
    worker.endpoints.reset(shop, worker.clock.now())
    assert worker.record.holds[1:] == [("shop", 0.0)]


async def test_a_dead_prober_is_replaced() -> None:
    """A probe whose worker died is lost after its time-out; another worker probes."""
    async with crew(2) as two:
        for worker in two.workers:
            worker.sender.on(URL, Reply(status=503))
        await two.fail(0)
        two.workers[0].sender.on(URL, Reply(hang=True))
        await two.workers[0].clock.advance(33.1)
        two.workers[0].offer(event_message(message_id="probe"))
        await settled()
        assert two.states() == ["probing", "probing"]
        await two.end(0)

        await two.workers[1].clock.advance(41.1)
        two.workers[1].sender.on(URL, Reply())
        await two.workers[1].handle(event_message(message_id="again"))

        assert two.workers[1].endpoint(two.shops[1]).state == "closed"


async def test_retry_after_holds_every_worker() -> None:
    """After one 429 with Retry-After no worker sends before its time (fault 40)."""
    async with crew() as four:
        four.workers[0].sender.on(URL, Reply(status=429, retry_after="60"))
        await four.workers[0].handle(event_message(message_id="first"))
        await settled()

        for worker in four.workers:
            await worker.handle(event_message(message_id="later"))

        assert four.sent() == 1
        held = [w.endpoint(s).pace.held_until - START for w, s in zip(four.workers, four.shops, strict=True)]
        assert min(held) >= 60.0
        await four.workers[0].clock.advance(61.0)
        later = [w.endpoint(s).pace.held_until - START for w, s in zip(four.workers, four.shops, strict=True)]
        assert later == held, "a pause that is sent again and again must not grow"


async def test_rates_are_divided_by_live_workers() -> None:
    """Beats count the live workers; one that leaves counts until then, one that dies for 7 s more."""
    async with crew() as four:
        assert [share(w) for w in four.workers] == [4] * 4
        await four.end(3)
        await four.talks[3].leave()
        assert [share(w) for w in four.workers[:3]] == [3] * 3
        await four.end(2)
        await four.workers[0].clock.advance(ALIVE_S - BEAT_S)
        assert share(four.workers[0]) == 3
        await four.workers[0].clock.advance(2 * BEAT_S + 0.1)

        assert [share(w) for w in four.workers[:2]] == [2, 2]


async def test_news_of_others_endpoints_are_passed_by(worker: Worker) -> None:
    """A subscription that is gone, or has another URL now, is not touched; nor does anything fail."""
    [shop] = await worker.subscribe_all("shop")
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    wrong = [("sub_gone", endpoint_id("acme", URL)), (shop.id, endpoint_id("acme", "https://old.example/"))]
    news = [
        News(subscription=sub, endpoint=end, state="open", epoch=9, rest_s=99.0, held_s=99.0)
        for sub, end in wrong
    ]

    talk.receive(orjson.loads(encode(NewsMessage(NewsKind.STATE, "w1", news))))
    talk.receive({"kind": "beat", "worker": "w1", "news": [["x"]]})
    await worker.handle(event_message())

    assert worker.sent("shop") == 1
    assert share(worker) == 2


async def test_many_open_breakers_take_turns_in_the_beats(worker: Worker) -> None:
    """Each is repeated, and no beat grows with their number."""
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    shops = [_opened(worker, number) for number in range(5 * BEAT_ENDPOINTS)]
    running = asyncio.create_task(talk.run())

    await worker.clock.advance(10 * BEAT_S)
    running.cancel()

    beats = [orjson.loads(p.publication.body)["news"] for p in worker.publisher.confirmed]
    assert max(map(len, beats)) <= 2 * BEAT_ENDPOINTS
    assert {row[0] for rows in beats for row in rows} == set(shops)


async def test_few_open_breakers_are_repeated_in_each_beat(worker: Worker) -> None:
    """A lost message is healed by the next beat."""
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    for number in range(BEAT_ENDPOINTS):
        _opened(worker, number)
    running = asyncio.create_task(talk.run())

    await worker.clock.advance(3 * BEAT_S)
    running.cancel()

    beats = [orjson.loads(p.publication.body)["news"] for p in worker.publisher.confirmed]
    assert len(beats) >= 3
    assert [len(rows) for rows in beats] == [BEAT_ENDPOINTS] * len(beats)


async def test_a_broker_that_is_away_silences_and_stops_nothing() -> None:
    """News that cannot be published now are published later; the worker goes on."""
    async with crew(2) as two:
        two.workers[0].publisher.connected = False
        two.workers[0].sender.on(URL, Reply())
        await two.workers[0].handle(event_message())
        endpoint = two.workers[0].endpoint(two.shops[0])
        endpoint.admission.breaker = Probing(until=START + 9.0, epoch=2)
        two.workers[0].endpoints.announcements.changed(endpoint)
        await two.workers[0].clock.advance(BEAT_S)
        before = two.states()

        two.workers[0].publisher.connected = True
        await two.workers[0].clock.advance(BEAT_S)

        assert before == ["probing", "closed"]
        assert two.states() == ["probing", "probing"]


def _opened(worker: Worker, number: int) -> str:
    """Open the breaker of one more endpoint, long ago; return the id of its subscription."""
    shop = replace(subscription(), id=f"sub_{number}", url=f"https://shop{number}.example/")
    worker.endpoints.of(shop).admission.adopt(Open(START + 3_600, epoch=1), START)
    return shop.id


def payload(**fields: Any) -> dict[str, Any]:
    """A message as it is on the exchange."""
    return {"kind": "state", "worker": "w9", "news": [], **fields}


async def test_nothing_on_control_can_fell_a_worker(worker: Worker) -> None:
    """A publisher with the right to publish there may publish anything."""
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")

    for said in ({}, payload(kind=None), payload(worker=[]), payload(news={}), payload(news=[{}, None, 5])):
        talk.receive(said)

    assert worker.bugs() == []
