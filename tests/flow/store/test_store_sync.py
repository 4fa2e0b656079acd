"""The daemon follows its store for ever, over every fault of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from consumer.core.endpoint.health import Failing, Health
from consumer.core.errors import StoreUnavailable
from consumer.core.subscription.subscription import endpoint_id
from consumer.flow.store_sync import StoreSync
from tests.support.fakes import START
from tests.support.worker import Worker


@pytest_asyncio.fixture
async def store_sync(worker: Worker) -> AsyncIterator[StoreSync]:
    """Give the routine, running; end it after the test."""
    following = StoreSync(worker.store, worker.subscriptions, worker.endpoints, worker.record, worker.observe)
    task = asyncio.create_task(following.run())
    yield following
    assert not task.done()
    task.cancel()


async def test_a_store_that_is_away_at_the_start_is_asked_until_it_answers(worker: Worker) -> None:
    """Fault 68: nothing counts as loaded meanwhile: an event would pass as unmatched."""
    following = StoreSync(worker.store, worker.subscriptions, worker.endpoints, worker.record, worker.observe)
    worker.store.failure = StoreUnavailable("a.db: is locked")
    task = asyncio.create_task(following.run())
    await worker.clock.advance(5)
    assert not following.loaded.is_set()

    worker.store.failure = None
    await worker.clock.advance(1)
    assert following.loaded.is_set()
    assert worker.count("store_up") == 1
    task.cancel()


async def test_a_bug_in_the_store_stops_no_delivery(worker: Worker, store_sync: StoreSync) -> None:
    """Fault 68: an unexpected error is reported, and the store is asked again."""
    await worker.subscribe("shop")
    await worker.clock.advance(1)
    worker.store.failure = RuntimeError("a driver's bug")
    await worker.clock.advance(2)
    worker.store.failure = None

    assert len(worker.bugs()) >= 2
    await worker.store.disable((await worker.store.entries())[0].id, "by hand")
    await worker.clock.advance(1)
    assert list(worker.subscriptions.match("acme", "x")) == []


async def test_requested_loads_become_one(worker: Worker, store_sync: StoreSync) -> None:
    """300 signals within three seconds make a few loads, and the last one is loaded within a second."""
    await store_sync.loaded.wait()
    await worker.subscribe("shop")
    before = worker.store.loads

    for _ in range(300):
        store_sync.reload_soon()
        await worker.clock.advance(0.01)
    await worker.clock.advance(1)

    assert 1 <= worker.store.loads - before <= 20


async def test_a_requested_load_begins_soon(worker: Worker, store_sync: StoreSync) -> None:
    """It is loaded although the store shows no change, and needs no further request."""
    await store_sync.loaded.wait()
    await worker.clock.advance(2)
    before = worker.store.loads

    store_sync.reload_soon()
    await worker.clock.advance(0.25)

    assert worker.store.loads - before == 1


async def test_remaining_changes_are_written_at_the_end(worker: Worker) -> None:
    """Faults 38, 58: a 410 just before the end is not forgotten, unless the store is away."""
    shop = await worker.subscribe("shop")
    following = StoreSync(worker.store, worker.subscriptions, worker.endpoints, worker.record, worker.observe)
    worker.subscriptions.disable(shop, "HTTP 410")

    await following.finish()

    assert [entry.enabled for entry in await worker.store.entries()] == [False]


async def test_an_endpoint_disabled_or_enabled_elsewhere_begins_anew(
    worker: Worker, store_sync: StoreSync
) -> None:
    """No worker counts earlier failures against it, met or not."""
    await store_sync.loaded.wait()
    met, unmet = await worker.subscribe_all("met", "unmet")
    worker.endpoint(met).health.failing = Failing(START - 1e6, counts=True)
    failing = Health(Failing(START - 1e6, counts=True))
    worker.endpoints.prior.remember((), {endpoint_id(unmet.tenant, unmet.url): failing})
    for each in (met, unmet):
        await worker.store.disable(each.id, "by hand")
    await worker.clock.advance(1)
    assert worker.endpoint(met).health.failing is None

    await worker.store.apply(worker._entries, enable=True)
    await worker.clock.advance(1)

    assert [worker.endpoint(each).health.failing for each in (met, unmet)] == [None, None]
