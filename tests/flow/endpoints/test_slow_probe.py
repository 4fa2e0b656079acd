"""An endpoint that was disabled after days of failures is probed now and then, if that is configured."""

from __future__ import annotations

import orjson
import pytest

from consumer.core.endpoint.health import gone_note
from consumer.core.errors import StoreUnavailable
from consumer.core.model import Control
from consumer.core.store.lineage import Generation
from consumer.core.subscription.subscription import Subscription
from consumer.flow.endpoints.slow_probe import SlowProbe
from tests.support.fakes_sender import Reply
from tests.support.worker import Worker

EVERY_S = 3600.0
SHOP = "https://shop.example/"


async def given_up(worker: Worker, reason: str = gone_note(432_000.0)) -> Subscription:
    """Subscribe an endpoint that is disabled, and well again."""
    shop = await worker.subscribe("shop")
    await worker.store.disable(shop.id, reason)
    assert await worker.subscriptions.reload()
    worker.sender.on(SHOP, Reply())
    return shop


async def is_enabled(worker: Worker, shop: Subscription) -> bool:
    """Return its subscription in the store."""
    assert await worker.subscriptions.reload()
    known = worker.subscriptions.get(shop.id)
    assert known is not None
    return known.enabled


def probing(worker: Worker, *, leads: bool = True) -> SlowProbe:
    """Return the slow probe of a worker."""
    return SlowProbe(worker.context, worker.subscriptions, worker.store, EVERY_S, lambda: leads)


async def look_for(worker: Worker, probe: SlowProbe, hours: int) -> None:
    """Let it check every ten minutes for some hours."""
    for _ in range(6 * hours):
        await probe.look()
        await worker.clock.advance(600.0)


async def test_a_store_that_is_not_believed_is_not_written_to(worker: Worker) -> None:
    """Fault 81: the store may be a backup; a change would make another generation of it."""
    shop = await given_up(worker)
    worker.known.generation = Generation("memory", 99, "99")
    worker.trust.ask()
    assert not await worker.subscriptions.reload()

    await look_for(worker, probing(worker), 2)

    [entry] = await worker.store.entries()
    assert (entry.id, entry.enabled) == (shop.id, False)


async def test_a_success_enables_it_again(worker: Worker) -> None:
    """One signed webhook of our own after its time, and the subscription is as it was."""
    shop = await given_up(worker)
    probe = probing(worker)
    await probe.look()
    assert worker.sender.sent == []

    await look_for(worker, probe, 1)

    [request] = worker.sender.sent
    assert (request.url, orjson.loads(request.body)["type"]) == (SHOP, "leveret.test")
    assert dict(request.headers)["webhook-signature"].startswith("v1,")
    assert await is_enabled(worker, shop)
    assert worker.log.events("endpoint.probed")[0]["status"] == 200


@pytest.mark.parametrize("reply", [Reply(status=503), Reply(status=410), Reply(control=Control.DISABLE)])
async def test_anything_else_leaves_it_off(worker: Worker, reply: Reply) -> None:
    """The next probe goes at its time, not sooner; a success that asks to disable does not count."""
    shop = await given_up(worker)
    worker.sender.on(SHOP, reply)

    await look_for(worker, probing(worker), 5)

    assert worker.sent("shop") == 5
    assert not await is_enabled(worker, shop)


@pytest.mark.parametrize("reason", ["HTTP 410", "by hand", f"HTTP 410: {gone_note(432_000.0)}"])
async def test_other_disabled_subscriptions_are_left_alone(worker: Worker, reason: str) -> None:
    """A 410 and the decision of an operator hold, for every answer of the endpoint."""
    await given_up(worker, reason)

    await look_for(worker, probing(worker), 5)

    assert worker.sender.sent == []


async def test_of_several_workers_one_probes(worker: Worker) -> None:
    """The others do not probe."""
    await given_up(worker)

    await look_for(worker, probing(worker, leads=False), 5)

    assert worker.sender.sent == []


async def test_a_store_that_is_away_costs_one_more_probe(worker: Worker) -> None:
    """Fault 68: an endpoint that could not be enabled is probed again."""
    shop = await given_up(worker)
    probe = probing(worker)
    worker.store.failure = StoreUnavailable("a.db: is locked")
    await look_for(worker, probe, 1)
    worker.store.failure = None
    assert not await is_enabled(worker, shop)

    await look_for(worker, probe, 1)

    assert worker.sent("shop") == 2
    assert await is_enabled(worker, shop)
