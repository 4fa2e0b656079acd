"""The endpoints that are in trouble, as the gauges find them in a running worker."""

from __future__ import annotations

import pytest

from consumer.core.endpoint.trouble import SLICE_S
from consumer.flow.endpoints.troubles import EndpointTroubles
from tests.support.fakes_sender import Reply
from tests.support.worker import SHOP, Worker, event_message


async def test_deliveries_that_are_kicked_or_cancelled_wait_no_longer() -> None:
    """Once the command has reported that all of them left; until then they wait."""
    worker = Worker()
    shop = await worker.subscribe("shop", retry={"max_attempts": 2, "base_s": 600}, breaker={"failures": 0})
    worker.sender.on(SHOP, Reply(status=503))
    book, now = worker.observe.troubles.book, worker.clock.now()
    book.begin({}, now)
    await worker.handle(event_message())
    assert (book.waiting(now), book.waiting_of(shop.id, now)) == (1, 1)

    for tenant in ("beta", "acme"):
        worker.endpoints.free(tenant, None)
        assert (book.waiting(now), book.waiting_of(shop.id, now)) == (1, 1)
    worker.endpoints.left({shop.id: 1}, all_left=True, comes_back=True)

    assert (book.waiting(now), book.waiting_of(shop.id, now)) == (0, 0)


async def test_the_state_of_a_failing_endpoint_is_shown() -> None:
    """Its attempts, waiting deliveries and breaker; a subscription without requests is listed if disabled."""
    worker = Worker()
    await worker.subscribe("shop", retry={"max_attempts": 2, "base_s": 60}, breaker={"failures": 2})
    await worker.subscribe("desk")
    [off] = await worker.subscribe_all("off", enabled=False)
    worker.sender.on(SHOP, Reply(status=503))
    looks = EndpointTroubles(worker.subscriptions, worker.endpoints, worker.observe)
    worker.observe.troubles.book.disable(off.id)

    def look(passed_s: float) -> None:
        worker.clock.passed_s += passed_s
        looks.look(worker.clock.now())

    look(0.0)
    for number in range(3):
        await worker.handle(event_message(message_id=f"ord-{number}"))
        look(1.0)
    look(SLICE_S)

    assert worker.count("subscription_trouble", subscription="acme/shop", cause="http_5xx") == 1
    assert worker.count("subscription_trouble", subscription="acme/off", cause="disabled") == 1
    assert worker.count("subscription_breaker", subscription="acme/shop") == 2
    assert worker.count("subscription_waiting_deliveries", subscription="acme/shop") == 3
    assert worker.count("subscription_attempts_total", subscription="other", result="delivered") == 3


@pytest.mark.parametrize("by", ["hand", "disabling", "Leveret", "pausing"])
async def test_a_breaker_that_a_decision_keeps_open_hides_no_other(by: str) -> None:
    """It is not the oldest open one, and its deliveries are not late: later outages raise their alerts."""
    worker = Worker()
    fields: dict[str, object] = {"breaker": {"failures": 1}, "retry": {"base_s": 60}}
    shop = await worker.subscribe("shop", **fields)
    looks = EndpointTroubles(worker.subscriptions, worker.endpoints, worker.observe)

    def oldest() -> float | None:
        worker.clock.passed_s += SLICE_S
        looks.look(worker.clock.now())
        return worker.count("breaker_oldest_open_timestamp_seconds")

    worker.sender.on(SHOP, Reply(status=503))
    await worker.handle(event_message(message_id="ord-1"))
    assert oldest() != 0

    match by:
        case "hand":
            worker.endpoints.force(shop)
        case "Leveret":
            worker.subscriptions.disable(shop, "HTTP 410")
        case "disabling":
            await worker.unsubscribe("shop")
            await worker.subscribe("shop", enabled=False, **fields)
        case _:
            worker.store.paused.add(shop.id)
            assert await worker.subscriptions.reload()

    assert oldest() == 0
