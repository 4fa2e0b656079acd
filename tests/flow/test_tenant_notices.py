"""At 50 parked entries a tenant's own subscription to leveret.* types is notified, once."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import StoreUnavailable
from consumer.core.message.records import ParkedCounts
from consumer.core.message.tenant_notice import MANY, ManyParked
from consumer.flow.store.parked_sizes import ParkedSizes
from consumer.flow.tenant_notices import TenantNotices
from consumer.ports import Source
from tests.support.worker import DUE, NAMES, Worker


def notices_of(worker: Worker, *, leads: bool = True) -> TenantNotices:
    """Return the notices of a worker that knows its subscriptions."""
    return TenantNotices(worker.context, worker.subscriptions, loaded=lambda: True, leads=lambda: leads)


def owed(worker: Worker) -> list[str]:
    """Return the types of the notices that were published."""
    found = [p for p in worker.publisher.confirmed if p.publication.exchange == NAMES.due]
    return [str(p.headers["leveret-type"]) for p in found]


async def test_a_tenant_is_notified_at_fifty_parked_entries() -> None:
    """S1-6: not at 49, once at 50, only where leveret's types are named, again after a recovery."""
    worker = Worker()
    await worker.subscribe("desk", events=["leveret.parked.*"])
    await worker.subscribe("shop", events=["#"])
    notices = notices_of(worker)

    await notices.take({"acme": 49})
    assert owed(worker) == []
    for size in (50, 51, 90):
        await notices.take({"acme": size, "globex": 70})
    assert owed(worker) == ["leveret.parked.many"]
    [published] = worker.publisher.confirmed
    await worker.handle(published.raw(queue=DUE), Source.DUE)
    assert (worker.sent("desk"), worker.sent("shop")) == (1, 0)
    body = json.loads(worker.sender.sent[0].body)
    assert (body["type"], body["data"]) == ("leveret.parked.many", {"parked": 50, "from": 50})

    for size in (10, 50):
        await notices.take({"acme": size})
    assert len(owed(worker)) == 2


async def test_only_the_leading_worker_notifies_and_a_fault_is_made_good() -> None:
    """S1-6: a broker that is away delays the notice; a worker that does not lead sends none."""
    worker = Worker()
    await worker.subscribe("desk", events=["leveret.#"])
    await notices_of(worker, leads=False).take({"acme": 60})
    notices = notices_of(worker)
    worker.publisher.connected = False
    await notices.take({"acme": 60})
    assert owed(worker) == []

    worker.publisher.connected = True
    await notices.take({"acme": 60})

    assert owed(worker) == ["leveret.parked.many"]


async def test_a_look_before_the_subscriptions_are_known_loses_no_notice() -> None:
    """S1-6: the first look of a worker may come before its subscriptions are loaded."""
    worker, loaded = Worker(), asyncio.Event()
    notices = TenantNotices(worker.context, worker.subscriptions, loaded=loaded.is_set, leads=lambda: True)
    await notices.take({"acme": 60})
    await worker.subscribe("desk", events=["leveret.#"])
    loaded.set()

    await notices.take({"acme": 60})

    assert owed(worker) == ["leveret.parked.many"]


class Index:
    """Counts the looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_away = False

    async def parked_counts(self) -> ParkedCounts:
        """Return sixty entries of one tenant."""
        self.looks += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return ParkedCounts({"acme": 60}, {"sub_1": 60}, 60, 1.0)


async def test_one_look_serves_the_gauges_and_the_notices() -> None:
    """S1-6: a store that is away delays both, and stops neither."""
    worker, index = Worker(), Index()
    await worker.subscribe("desk", events=["leveret.#"])
    sizes = ParkedSizes(index, worker.observe, notices_of(worker).take)
    index.is_away = True
    await sizes.look()
    assert owed(worker) == []
    index.is_away = False

    await sizes.look()

    assert (index.looks, owed(worker)) == (2, ["leveret.parked.many"])
    assert worker.count("tenant_parked_entries", tenant="acme") == 60


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)), max_size=20))
def test_each_rise_over_the_number_is_returned_once(looks: list[dict[str, int]]) -> None:
    """S1-6: a tenant is returned exactly at the looks at which it has 50, and had fewer before."""
    many, before = ManyParked(), dict[str, int]()
    for sizes in looks:
        fresh = [t for t in "abc" if sizes.get(t, 0) >= MANY > before.get(t, 0)]
        assert list(many.reached(sizes)) == fresh
        before = sizes
