"""At 50 parked entries a tenant's own subscription to leveret.* types is notified, once."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import StoreUnavailable
from consumer.core.message.tenant_notice import MANY, ManyParked
from consumer.flow.tenant_notices import TenantNotices
from consumer.ports import Source
from tests.support.worker import DUE, NAMES, Worker


class Index:
    """Parked entries by tenant, as a test sets them."""

    def __init__(self, **sizes: int) -> None:
        self.sizes: dict[str, int] = sizes
        self.is_away = False

    async def parked_sizes(self) -> Mapping[str, int]:
        """Return the sizes."""
        if self.is_away:
            raise StoreUnavailable("away")
        return self.sizes


def owed(worker: Worker) -> list[str]:
    """Return the types of the notices that were published."""
    found = [p for p in worker.publisher.confirmed if p.publication.exchange == NAMES.due]
    return [str(p.headers["leveret-type"]) for p in found]


async def test_a_tenant_is_notified_at_fifty_parked_entries() -> None:
    """S1-6: not at 49, once at 50, only where leveret's types are named, again after a recovery."""
    worker, index = Worker(), Index(acme=49)
    await worker.subscribe("desk", events=["leveret.parked.*"])
    await worker.subscribe("shop", events=["#"])
    notices = TenantNotices(worker.context, worker.subscriptions, index, lambda: True)

    await notices.look()
    assert owed(worker) == []
    for size in (50, 51, 90):
        index.sizes = {"acme": size, "globex": 70}
        await notices.look()
    assert owed(worker) == ["leveret.parked.many"]
    [published] = worker.publisher.confirmed
    await worker.handle(published.raw(queue=DUE), Source.DUE)
    assert (worker.sent("desk"), worker.sent("shop")) == (1, 0)
    body = json.loads(worker.sender.sent[0].body)
    assert (body["type"], body["data"]) == ("leveret.parked.many", {"parked": 50, "from": 50})

    for size in (10, 50):
        index.sizes = {"acme": size}
        await notices.look()
    assert len(owed(worker)) == 2


async def test_only_the_leading_worker_notifies_and_a_fault_is_made_good() -> None:
    """S1-6: a store or broker that is away delays the notice; a worker that does not lead sends none."""
    worker, index = Worker(), Index(acme=60)
    await worker.subscribe("desk", events=["leveret.#"])
    await TenantNotices(worker.context, worker.subscriptions, index, lambda: False).look()
    notices = TenantNotices(worker.context, worker.subscriptions, index, lambda: True)
    index.is_away, worker.publisher.connected = True, False
    await notices.look()
    index.is_away = False
    await notices.look()
    assert owed(worker) == []

    worker.publisher.connected = True
    await notices.look()

    assert owed(worker) == ["leveret.parked.many"]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)), max_size=20))
def test_each_rise_over_the_number_is_returned_once(looks: list[dict[str, int]]) -> None:
    """S1-6: a tenant is returned exactly at the looks at which it has 50, and had fewer before."""
    many, before = ManyParked(), dict[str, int]()
    for sizes in looks:
        fresh = [t for t in "abc" if sizes.get(t, 0) >= MANY > before.get(t, 0)]
        assert list(many.reached(sizes)) == fresh
        before = sizes
