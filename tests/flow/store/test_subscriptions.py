"""The subscriptions in memory: right after every reload, kept when the store is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.subscription.subscription import Subscription
from consumer.flow.store.subscriptions import INDEXED_AT_ONCE, Subscriptions
from consumer.flow.store.trust import Trust
from tests.support.fakes_store import MemoryRecord, MemoryStore
from tests.support.worker import Worker


class Patterns(tuple[str, ...]):
    """Patterns that count how often some were compiled."""

    compiled: ClassVar[list[str]] = []
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        self.compiled.extend(self[:])
        return super().__iter__()


class GivenStore(MemoryStore):
    """Loads the subscriptions of the test."""

    given: Sequence[Subscription] = ()

    async def load(self) -> Sequence[Subscription]:
        """Return it."""
        return self.given


def kept(worker: Worker, store: MemoryStore) -> Subscriptions:
    """Return the subscriptions of another store."""
    trust = Trust(worker.observe, MemoryRecord())
    return Subscriptions(store, worker.observe, worker.record, trust, worker.endpoints.forgive)


async def test_a_reload_takes_effect_at_once(worker: Worker) -> None:
    """Added, changed and deleted subscriptions are those that are matched and counted."""
    shop = await worker.subscribe("shop", events=["order.*"])
    await worker.subscribe("crm", events=["invoice.#"], enabled=False)

    assert [s.id for s in worker.subscriptions.match("acme", "order.created")] == [shop.id]
    assert list(worker.subscriptions.match("acme", "invoice.paid")) == []
    assert list(worker.subscriptions.match("beta", "order.created")) == []
    assert worker.count("subscriptions", enabled="true") == 1
    assert worker.count("subscriptions", enabled="false") == 1
    await worker.unsubscribe("shop")
    assert worker.subscriptions.get(shop.id) is None
    assert list(worker.subscriptions.match("acme", "order.created")) == []


async def test_unchanged_subscriptions_stay_the_same_objects(worker: Worker) -> None:
    """So that a worker finds the state of an endpoint by identity, on every request."""
    shop = await worker.subscribe("shop")

    await worker.subscribe("crm")

    assert worker.subscriptions.get(shop.id) is shop


@pytest.mark.parametrize("failure", [StoreUnavailable("a.db: is locked"), ConfigError("acme/shop: no url")])
async def test_a_store_that_is_away_changes_nothing(worker: Worker, failure: Exception) -> None:
    """Delivery goes on from memory; reported once, counted, and shown until it is well (fault 68)."""
    shop = await worker.subscribe("shop")
    assert worker.count("store_up") == 1
    worker.store.failure = failure

    assert not await worker.subscriptions.reload()
    assert not await worker.subscriptions.reload()

    assert [s.id for s in worker.subscriptions.match("acme", "x")] == [shop.id]
    assert worker.count("reloads_total", result="failed") == 2
    assert worker.count("store_up") == 0
    assert [line["detail"] for line in worker.log.events("store.failed")] == [str(failure)]
    worker.store.failure = None
    assert await worker.subscriptions.reload()
    assert worker.count("store_up") == 1
    assert len(worker.log.events("store.recovered")) == 1


async def test_a_look_finds_the_store_away_and_well_again(worker: Worker) -> None:
    """Fault 68: the daemon's looks notice both, though nothing has changed in between."""
    await worker.subscribe("shop")
    worker.store.failure = StoreUnavailable("a.db: has gone")

    assert not await worker.subscriptions.stale()
    assert not await worker.subscriptions.stale()
    assert (worker.count("store_up"), len(worker.log.events("store.failed"))) == (0, 1)

    worker.store.failure = None
    assert not await worker.subscriptions.stale()
    assert (worker.count("store_up"), len(worker.log.events("store.recovered"))) == (1, 1)


async def test_a_fault_in_the_store_stays_reported(worker: Worker) -> None:
    """Fault 68: a successful check does not hide that the subscriptions cannot be loaded."""
    await worker.subscribe("shop")
    worker.store.failure = ConfigError("acme/shop: retry.policy: 'night' is not one of default")
    assert not await worker.subscriptions.reload()
    worker.store.failure = None

    assert not await worker.subscriptions.stale()

    assert worker.count("store_up") == 0


async def test_disabling_works_without_the_store(worker: Worker) -> None:
    """A 410 stops requests at once, even when the store cannot be written; it is owed (faults 38, 68)."""
    shop = await worker.subscribe("shop")
    worker.store.failure = StoreUnavailable("a.db: the disk is full")

    worker.subscriptions.disable(shop, "HTTP 410")
    await worker.subscriptions.settle()

    assert list(worker.subscriptions.match("acme", "x")) == []
    found = worker.subscriptions.get(shop.id)
    assert found is not None
    assert not found.enabled
    assert len(worker.log.events("endpoint.disabled")) == 1
    assert len(worker.log.events("store.failed")) == 1

    worker.store.failure = None
    await worker.subscribe("other")  # in the store it is still enabled
    assert [s.name for s in worker.subscriptions.match("acme", "x")] == ["other"]
    await worker.subscriptions.settle()
    stored = {entry.label: entry.enabled for entry in await worker.store.entries()}
    assert stored == {"shop": False, "other": True}
    assert worker.count("store_up") == 1


async def test_a_new_url_is_not_hindered_by_owed_deliveries(worker: Worker) -> None:
    """Faults 32, 38: an answer of the old URL does not disable the new one."""
    shop = await worker.subscribe("shop")
    worker.subscriptions.disable(shop, "HTTP 410")

    await worker.unsubscribe("shop")
    moved = await worker.subscribe("shop", url="https://moved.example/")
    await worker.subscriptions.settle()

    assert moved.enabled
    assert [entry.enabled for entry in await worker.store.entries()] == [True]


async def test_an_answer_of_the_old_url_does_not_disable_the_new_one(worker: Worker) -> None:
    """Faults 32, 38: the old URL answers 410 to a request while the operator changes the URL."""
    old = await worker.subscribe("shop")
    await worker.unsubscribe("shop")
    moved = await worker.subscribe("shop", url="https://moved.example/")
    assert moved.id == old.id

    worker.subscriptions.disable(old, "HTTP 410")
    await worker.subscriptions.settle()

    assert worker.subscriptions.get(moved.id) is moved
    assert [entry.enabled for entry in await worker.store.entries()] == [True]
    assert worker.log.events("endpoint.disabled") == []


async def test_disabling_compiles_nothing(worker: Worker) -> None:
    """Faults 38, 74: one 410 in a tenant of 10,000 subscriptions does not hold the event loop."""
    shop = await worker.subscribe("shop")
    store = GivenStore()
    subscriptions = kept(worker, store)
    store.given = [
        replace(shop, id=f"sub_{n}", name=str(n), url=f"https://{n}.example/", events=Patterns(["order.*"]))
        for n in range(5)
    ]
    assert await subscriptions.reload()
    Patterns.compiled.clear()

    subscriptions.disable(store.given[1], "HTTP 410")
    subscriptions.disable(store.given[3], "HTTP 410")

    assert [s.name for s in subscriptions.match("acme", "order.created")] == ["0", "2", "4"]
    assert Patterns.compiled == []


async def test_disabling_is_reported_once(worker: Worker) -> None:
    """Many answers of 410 at the same time are one event for the operator; it outlives a reload."""
    shop = await worker.subscribe("shop")

    for _ in range(5):
        worker.subscriptions.disable(shop, "HTTP 410")
    await worker.subscriptions.settle()
    await worker.subscriptions.reload()

    assert len(worker.log.events("endpoint.disabled")) == 1
    assert (await worker.store.entries())[0].disabled_reason == "HTTP 410"
    found: Subscription | None = worker.subscriptions.get(shop.id)
    assert found is not None
    assert not found.enabled


async def test_subscriptions_deleted_meanwhile_are_not_brought_back(worker: Worker) -> None:
    """A 410 of a request that outlived its subscription does nothing."""
    shop = await worker.subscribe("shop")
    await worker.unsubscribe("shop")

    worker.subscriptions.disable(shop, "HTTP 410")
    await worker.subscriptions.settle()

    assert worker.subscriptions.get(shop.id) is None
    assert list(await worker.store.entries()) == []


async def test_a_reload_compiles_the_changed_tenants_only(worker: Worker) -> None:
    """SW-33: with 10,000 subscriptions one change costs its tenant's part; the others stay as they were."""
    shop = await worker.subscribe("shop")
    store = GivenStore()
    subscriptions = kept(worker, store)
    store.given = [
        replace(shop, id=f"sub_{name}", name=name, tenant=name[0], events=Patterns([f"order.{name}"]))
        for name in ("x1", "x2", "y1", "z1")
    ]
    assert await subscriptions.reload()
    Patterns.compiled.clear()

    x1, x2, y1, _ = store.given
    store.given = [replace(x1, events=Patterns(["changed"])), replace(x2), y1]
    assert await subscriptions.reload()

    assert Patterns.compiled == ["changed", "order.x2"]
    assert [s.id for s in subscriptions.match("x", "changed")] == ["sub_x1"]
    assert list(subscriptions.match("x", "order.x1")) == []
    assert list(subscriptions.match("x", "order.x2")) == [x2]
    assert list(subscriptions.match("y", "order.y1")) == [y1]
    assert list(subscriptions.match("z", "order.z1")) == []
    assert subscriptions.get("sub_x2") is x2
    assert subscriptions.tenants() == 2


def test_events_are_matched_while_many_subscriptions_are_indexed() -> None:
    """Fault 74: a large reload does not hold the loop; a subscription disabled meanwhile stays so (38)."""

    async def reload_beside_the_loop() -> None:
        worker = Worker()
        shop = await worker.subscribe("shop")
        store = GivenStore()
        subscriptions = kept(worker, store)
        store.given = [
            replace(shop, id=f"sub_{n}", name=str(n), events=(f"order.n{n}",))
            for n in range(INDEXED_AT_ONCE + 1)
        ]
        assert await subscriptions.reload()
        first, second, *others = store.given
        store.given = [first, replace(second, events=("changed",)), *others]

        reloading = asyncio.create_task(subscriptions.reload())
        await asyncio.sleep(0)

        assert list(subscriptions.match("acme", "changed")) == []
        assert list(subscriptions.match("acme", "order.n0")) == [first]
        subscriptions.disable(first, "HTTP 410")
        assert await reloading
        assert [s.id for s in subscriptions.match("acme", "changed")] == ["sub_1"]
        assert list(subscriptions.match("acme", "order.n0")) == []
        known = subscriptions.get("sub_0")
        assert known is not None
        assert not known.enabled

    asyncio.run(reload_beside_the_loop())
