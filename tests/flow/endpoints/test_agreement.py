"""Four workers between fakes and one exchange that may lose what they say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import orjson
import pytest

from consumer.core.endpoint.agreement import ALIVE_S, BEAT_S, News, NewsKind, NewsMessage, encode
from consumer.core.endpoint.breaker import Closed, Open, Probing
from consumer.core.endpoint.health import Failing, Health, merged
from consumer.core.message.records import EndpointState
from consumer.core.model import ParkReason
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.flow.endpoints.agreement import Agreement
from tests.support.fakes import START, Published, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import NAMES, Worker, event_message

URL = "https://shop.example/"
BREAKER = {"failures": 5, "cooldown_s": 30}


class Crew:
    """Some workers on one control exchange.

    Attributes:
        lost: Says of a message from worker i to worker j (0-based) that it is lost.
    """

    def __init__(self, count: int) -> None:
        self.workers = [Worker() for _ in range(count)]
        self.talks = [
            Agreement(w.context, w.subscriptions, w.endpoints, f"w{i}") for i, w in enumerate(self.workers)
        ]
        self.shops: list[Subscription] = []
        self.lost: Callable[[int, int], bool] = lambda _from, _to: False
        self.listening = set(range(count))
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def begin(self, index: int) -> None:
        """Let one worker take part."""
        worker = self.workers[index]
        [shop] = await worker.subscribe_all("shop", breaker=dict(BREAKER))
        self.shops.append(shop)
        worker.publisher.on_confirmed = partial(self._pass_on, index)
        self._tasks[index] = asyncio.create_task(self.talks[index].run())
        self.talks[index].listening()
        await settled()

    async def end(self, index: int) -> None:
        """Kill one worker: it says nothing more."""
        task = self._tasks.pop(index)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def end_all(self) -> None:
        """Kill all."""
        for index in list(self._tasks):
            await self.end(index)

    def states(self) -> list[str]:
        """Return what each worker thinks of the endpoint."""
        return [w.endpoint(s).state for w, s in zip(self.workers, self.shops, strict=False)]

    def epochs(self) -> set[int]:
        """Return the epochs that workers are in."""
        return {w.endpoint(s).breaker.epoch for w, s in zip(self.workers, self.shops, strict=False)}

    def sent(self) -> int:
        """Count the requests of all workers."""
        return sum(w.sent("shop") for w in self.workers)

    async def fail(self, index: int) -> None:
        """Let one worker fail until its breaker opens."""
        worker, number = self.workers[index], 0
        while worker.endpoint(self.shops[index]).state == "closed":
            number += 1
            await worker.handle(event_message(message_id=f"fail-{index}-{number}"))

    def _pass_on(self, index: int, published: Published) -> None:
        if published.publication.exchange != NAMES.control:
            return
        message = orjson.loads(published.publication.body)
        for other, talk in enumerate(self.talks):
            if other in self._tasks and not self.lost(index, other):
                talk.receive(message)


@asynccontextmanager
async def crew(count: int = 4, begun: int | None = None) -> AsyncIterator[Crew]:
    """Run *begun* of *count* workers whose endpoint is down."""
    made = Crew(count)
    for worker in made.workers:
        worker.sender.on(URL, Reply(status=503))
    try:
        for index in range(count if begun is None else begun):
            await made.begin(index)
        yield made
    finally:
        await made.end_all()


def share(worker: Worker) -> int:
    """Return how many workers it counts."""
    return int(worker.count("workers"))


async def test_all_know_at_once_that_one_opened() -> None:
    """What one worker learned spares the endpoint the failures of the other three."""
    async with crew() as four:
        await four.fail(0)
        await settled()

        for worker in four.workers:
            await worker.handle(event_message(message_id="later"))

        assert four.states() == ["open"] * 4
        assert four.epochs() == {1}
        assert four.sent() == 5


async def test_one_probe_for_all_and_its_success_closes_all() -> None:
    """The first to look probes, the others wait for its news and start slowly."""
    async with crew() as four:
        await four.fail(0)
        await four.workers[0].clock.advance(31.6)  # the cooldown with its jitter is over for who opened it
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
    """Each had its own failures before it heard of the others; one probe all the same."""
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
    """One worker reaches nobody and opens its breaker; the others send on."""
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


async def test_who_has_no_success_of_its_own_lets_another_probe() -> None:
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
    """Lost messages. What changed lately stands in every beat."""
    async with crew() as four:
        four.lost = lambda _from, to: to == 3
        await four.fail(0)
        await settled()
        assert four.states() == ["open", "open", "open", "closed"]

        four.lost = lambda _from, _to: False
        await four.workers[0].clock.advance(BEAT_S)

        assert four.states() == ["open"] * 4


async def test_two_that_disagree_come_to_one_mind() -> None:
    """Parted, one opens, one is closed in a later epoch; together the later one holds."""
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
    """Who starts late hears at once what all know, and does not fail five times."""
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

    assert worker.endpoint(shop).breaker == Open(until=START + 20.0, epoch=7)
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
    """Fault 39: what is left of a pause is told, before any request too, and a new one afterwards."""
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
    """Fault 39, decision 16: one of a minute goes to the store, one of a moment not; a reset ends it."""
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
    """One 429 with Retry-After is heard by all: nobody asks again before its time (fault 40)."""
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
        assert later == held, "what is told again and again must not grow"


async def test_rates_are_divided_by_who_lives() -> None:
    """Heart-beats count live workers; who says goodbye counts no more at once, who dies after 7 s."""
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


async def test_a_broker_that_is_away_silences_and_stops_nothing() -> None:
    """What cannot be said now is said later; the worker goes on."""
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


def payload(**fields: Any) -> dict[str, Any]:
    """A message as it stands on the exchange."""
    return {"kind": "state", "worker": "w9", "news": [], **fields}


async def test_nothing_on_control_can_fell_a_worker(worker: Worker) -> None:
    """Whoever may publish there may say anything."""
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")

    for said in ({}, payload(kind=None), payload(worker=[]), payload(news={}), payload(news=[{}, None, 5])):
        talk.receive(said)

    assert worker.bugs() == []


HOUR = 3600.0


async def fail_after(crew: Crew, index: int, hours: float) -> None:
    """Let hours pass on every clock, and one worker fail once."""
    for worker in crew.workers:
        worker.clock.passed_s += hours * HOUR
    worker = crew.workers[index]
    await worker.handle(event_message(message_id=f"hour-{worker.clock.now()}"))
    await settled()


def failings(crew: Crew) -> list[Failing | None]:
    """Return since when each worker thinks that the endpoint fails."""
    return [w.endpoint(s).health.failing for w, s in zip(crew.workers, crew.shops, strict=True)]


async def test_days_of_failure_count_over_all_workers() -> None:
    """SW-41, decision 16: five days of failure are five days, whichever worker saw which part of them."""
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
    """SW-41, decision 16: one worker took something: none counts on, and the store knows it."""
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


async def test_who_alone_cannot_reach_an_endpoint_is_contradicted() -> None:
    """Decision 16: a worker whose own network fails hears that others have successes, and gives nobody up."""
    async with crew(2) as two:
        two.workers[1].sender.on(URL, Reply())
        await fail_after(two, 0, 0.0)
        await fail_after(two, 1, 6.0)

        await fail_after(two, 0, 7.0)

        assert failings(two) == [None, None]


async def test_a_short_failure_is_told_to_nobody() -> None:
    """An endpoint that fails and recovers all the time costs neither messages nor writes."""
    async with crew(2) as two:
        two.workers[0].sender.on(URL, *[Reply(status=503), Reply()] * 20)
        for _ in range(20):
            await fail_after(two, 0, 0.1)

        assert two.workers[0].record.healths == []
        assert two.workers[0].endpoints.announcements.take_due() == set()


async def test_a_restart_forgets_no_failures(worker: Worker) -> None:
    """SW-41, decision 16: what the store says goes on; the first failure after five days disables."""
    [shop] = await worker.subscribe_all("shop")
    since = START - 5 * 24 * HOUR
    worker.endpoints.prior.remember((), {endpoint_id("acme", URL): Health(Failing(since, counts=True))})
    worker.sender.on(URL, Reply(status=503))

    await worker.handle(event_message())

    assert [entry.reason for entry in worker.parked()] == [ParkReason.DISABLED]
    assert worker.subscriptions.get(shop.id) != shop


async def test_forced_open_holds_every_worker_until_the_reset() -> None:
    """Also who starts later; no probe goes, what comes looks again in a minute."""
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


async def test_who_missed_a_decision_by_hand_is_not_right_against_it() -> None:
    """The message to one worker is lost, whose breaker opens, probes and opens again."""
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
    """After a probe was taken, none of them needs five failures more."""
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
