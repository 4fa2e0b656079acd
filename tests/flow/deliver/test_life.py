"""Whole lives of deliveries over the ladder, for any faults of endpoints and broker, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.core.subscription.subscription import Subscription
from tests.support.fakes import START, run_virtually
from tests.support.fakes_sender import Reply
from tests.support.worker import LoopBack, Worker, event_message

REPLIES = st.one_of(
    st.sampled_from([200, 200, 200, 204, 400, 404, 500, 503]).map(lambda status: Reply(status=status)),
    st.integers(1, 20).map(lambda wait: Reply(status=429, retry_after=str(wait))),
    st.sampled_from([OutcomeKind.REFUSED, OutcomeKind.RESET, OutcomeKind.DNS, OutcomeKind.BLOCKED]).map(
        lambda kind: Reply(fault=kind)
    ),
    st.just(Reply(hang=True)),
)
FAULTS = st.sampled_from([None, None, BrokerUnavailable("lost"), Unroutable("none"), Refused("full")])


@dataclass(frozen=True)
class Shop:
    """A generated endpoint."""

    replies: list[Reply]  #: in turn; then it answers 200
    latency: int  #: tenths of a second
    concurrency: int
    breaker: int  #: failures that open it; 0 is off


SHOPS = st.builds(
    Shop,
    replies=st.lists(REPLIES, max_size=8),
    latency=st.integers(0, 15),
    concurrency=st.integers(1, 3),
    breaker=st.sampled_from([0, 2, 5]),
)


@dataclass
class Town:
    """A worker, its endpoints, and the events that came."""

    worker: Worker
    loop_back: LoopBack
    shops: list[Subscription] = field(default_factory=list)

    async def open(self, drawn: list[Shop]) -> None:
        """Subscribe every endpoint."""
        for number, shop in enumerate(drawn):
            fields = {"concurrency": shop.concurrency, "timeout_s": 3, "breaker": {"failures": shop.breaker}}
            subscription = await self.worker.subscribe(f"e{number}", **fields)
            self.shops.append(subscription)
            self.worker.sender.on(subscription.url, *shop.replies, Reply())
            self.worker.sender.latency_s[subscription.url] = shop.latency / 10

    def ended(self) -> Counter[tuple[str, str]]:
        """How often each (event, subscription) ended: delivered or parked."""
        ends: Counter[tuple[str, str]] = Counter()
        for line in self.worker.log.events("delivery.attempted"):
            if line["verdict"] == "delivered":
                ends[str(line["event_id"]), str(line["subscription_id"])] += 1
        for entry in self.worker.parked():
            assert entry.delivery is not None
            ends[entry.delivery.event.id, entry.delivery.targets[0]] += 1
        return ends

    def requests(self) -> list[tuple[str, str, float]]:
        """Every request as (event, URL, loop time of its start)."""
        sent: list[SignedRequest] = self.worker.sender.sent
        times = [at for _, at in self.worker.sender.started]
        return [(dict(r.headers)["webhook-id"], r.url, at) for r, at in zip(sent, times, strict=True)]


@settings(max_examples=60)
@given(
    st.lists(SHOPS, min_size=1, max_size=4),
    st.lists(st.integers(0, 30), min_size=1, max_size=8),
    st.lists(FAULTS, max_size=15),
    st.integers(1, 4),
)
def test_every_delivery_ends_once_and_nothing_is_early(
    drawn: list[Shop], arrivals: list[int], faults: list[Exception | None], capacity: int
) -> None:
    """Each (event, endpoint) ends exactly once; bounds hold; attempts are right; never before not_before."""

    async def main() -> None:
        worker = Worker(concurrency=capacity)
        town = Town(worker, LoopBack(worker, lag_s=0.003))
        await town.open(drawn)
        worker.publisher.faults = list(faults)
        for number, tenths in enumerate(arrivals):
            await asyncio.sleep(tenths / 10)
            worker.offer(event_message(message_id=f"ord-{number}", tenant="acme"))
        await town.loop_back.run_dry(look_s=5)

        pairs = {(f"ord-{n}", shop.id) for n in range(len(arrivals)) for shop in town.shops}
        refused_entries = len(worker.publisher.to("refused."))
        ended = town.ended()
        assert set(ended.values()) <= {1}
        assert len(pairs - set(ended)) == refused_entries
        assert all(ticket.settles == ["ack"] for ticket in worker.tickets)
        assert worker.sender.peak_in_flight <= capacity
        for subscription, shop in zip(town.shops, drawn, strict=True):
            assert worker.sender.peaks.get(subscription.url, 0) <= shop.concurrency
        assert worker.bugs() == []
        _check_attempts(town)
        _check_times(town)

    run_virtually(main)


def _check_attempts(town: Town) -> None:
    """Every request is one attempt, numbered 1, 2, 3 without a gap, and at most five."""
    numbers: dict[tuple[object, object], list[object]] = {}
    for line in town.worker.log.events("delivery.attempted"):
        numbers.setdefault((line["event_id"], line["subscription_id"]), []).append(line["attempt"])
    assert sum(map(len, numbers.values())) == len(town.worker.sender.sent)
    for attempts in numbers.values():
        assert attempts == list(range(1, len(attempts) + 1))
        assert len(attempts) <= 5


def _check_times(town: Town) -> None:
    """Between a failure and its ``not_before`` no request of that delivery starts.

    A held delivery may go before its reservation, which is void once its endpoint is well again.
    """
    url_of = {shop.id: shop.url for shop in town.shops}
    requests = town.requests()
    for made, message in town.loop_back.deliveries:
        if message.held:
            continue
        for target in message.targets:
            for event_id, url, at in requests[made:]:
                if (event_id, url) == (message.event.id, url_of[target]):
                    assert START + at >= message.not_before - 0.001
                    break


def test_a_dead_endpoint_with_a_breaker_sees_few_requests_and_ends_in_time() -> None:
    """200 in 20 s: threshold and probes alone are sent, all end expired (dead_breaker_requests)."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker)
        dead = await worker.subscribe("dead", retry={"max_age_s": 30})
        worker.sender.on(dead.url, Reply(fault=OutcomeKind.REFUSED))
        for number in range(200):
            worker.offer(event_message(message_id=f"ord-{number}"))
            await asyncio.sleep(0.1)
        await loop_back.run_dry()

        assert worker.sent("dead") <= 8
        assert {entry.reason.value for entry in worker.parked()} == {"expired"}
        assert len({entry.id for entry in worker.parked()}) == 200
        assert worker.clock.monotonic() <= 20 + 30 + 2

    run_virtually(main)


def test_a_poisonous_message_ends_in_suspect_and_innocents_are_delivered() -> None:
    """A message that came back five times is moved and, if innocent, delivered from there (fault 70)."""

    async def main() -> None:
        worker = Worker()
        loop_back = LoopBack(worker)
        await worker.subscribe("shop")
        for number in range(20):
            worker.offer(event_message(message_id=f"ord-{number}", delivery_count=number % 7))
        await loop_back.run_dry()

        assert worker.sent("shop") == 20
        assert worker.count("events_total", outcome="suspect") == 5
        assert all(ticket.settles == ["ack"] for ticket in worker.tickets)

    run_virtually(main)


def test_an_outage_of_an_endpoint_costs_its_siblings_nothing() -> None:
    """A hanging endpoint beside a healthy one: the healthy one gets every event at once (fault 53)."""

    async def main() -> None:
        worker = Worker(concurrency=8)
        loop_back = LoopBack(worker)
        await worker.subscribe("shop")
        hangs = await worker.subscribe("hangs", concurrency=2, timeout_s=20, retry={"max_age_s": 3_600})
        worker.sender.on(hangs.url, Reply(hang=True))
        late = []
        for number in range(100):
            worker.offer(event_message(message_id=f"ord-{number}"))
            await asyncio.sleep(0.2)
            late.append(number + 1 - worker.sent("shop"))
        await loop_back.run_dry(look_s=20)

        assert max(late) <= 1
        assert worker.sent("shop") == 100
        assert len({entry.id for entry in worker.parked()}) == 100

    run_virtually(main)
