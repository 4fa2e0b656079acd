"""The subscriptions in memory: right after every reload, kept when the store is away."""

from __future__ import annotations

import asyncio

import pytest

from consumer.core.errors import ConfigError
from consumer.core.subscription import Subscription
from tests.flow.worker import Worker


async def test_a_reload_takes_effect_at_once(worker: Worker) -> None:
    """Added, changed and deleted subscriptions are those that are matched and counted."""
    shop = await worker.subscribe("shop", events=["order.*"])
    await worker.subscribe("crm", events=["invoice.#"], enabled=False)

    assert [s.id for s in worker.registry.match("acme", "order.created")] == [shop.id]
    assert list(worker.registry.match("acme", "invoice.paid")) == []
    assert list(worker.registry.match("beta", "order.created")) == []
    assert worker.count("subscriptions", enabled="true") == 1
    assert worker.count("subscriptions", enabled="false") == 1
    await worker.unsubscribe("shop")
    assert worker.registry.get(shop.id) is None
    assert list(worker.registry.match("acme", "order.created")) == []


async def test_what_did_not_change_stays_the_same_object(worker: Worker) -> None:
    """So that what a worker knows of an endpoint is found by identity, on every request."""
    shop = await worker.subscribe("shop")

    await worker.subscribe("crm")

    assert worker.registry.get(shop.id) is shop


@pytest.mark.parametrize("failure", [ConfigError("line 3: no url"), OSError(5, "I/O error")])
async def test_a_store_that_is_away_changes_nothing(worker: Worker, failure: Exception) -> None:
    """Delivery goes on with what is in memory; said and counted (FAULTS 68)."""
    shop = await worker.subscribe("shop")
    worker.store.failure = failure

    assert not await worker.registry.reload()
    assert not await worker.registry.reload()

    assert [s.id for s in worker.registry.match("acme", "x")] == [shop.id]
    assert worker.count("reloads_total", result="failed") == 2
    assert len(worker.log.events("subscriptions.reload_failed")) == 1
    worker.store.failure = None
    assert await worker.registry.reload()


async def test_disabling_works_without_the_store(worker: Worker) -> None:
    """A 410 stops requests at once, even when the store cannot be written (FAULTS 38, 68)."""
    shop = await worker.subscribe("shop")
    worker.store.failure = OSError(30, "Read-only file system")

    await worker.registry.disable(shop, "HTTP 410")

    assert list(worker.registry.match("acme", "x")) == []
    found = worker.registry.get(shop.id)
    assert found is not None
    assert not found.enabled
    assert len(worker.log.events("endpoint.disabled")) == 1
    assert len(worker.log.events("subscriptions.reload_failed")) == 1


async def test_disabling_is_said_once(worker: Worker) -> None:
    """Many answers of 410 at the same time are one event for the operator; it outlives a reload."""
    shop = await worker.subscribe("shop")

    await asyncio.gather(*(worker.registry.disable(shop, "HTTP 410") for _ in range(5)))
    await worker.registry.reload()

    assert len(worker.log.events("endpoint.disabled")) == 1
    assert worker.store.entries()[0].disabled_reason == "HTTP 410"
    found: Subscription | None = worker.registry.get(shop.id)
    assert found is not None
    assert not found.enabled


async def test_what_was_deleted_meanwhile_is_not_brought_back(worker: Worker) -> None:
    """A 410 of a request that outlived its subscription does nothing."""
    shop = await worker.subscribe("shop")
    await worker.unsubscribe("shop")

    await worker.registry.disable(shop, "HTTP 410")

    assert worker.registry.get(shop.id) is None
    assert worker.store.entries() == ()
