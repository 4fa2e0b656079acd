"""The API steers real workers: breakers, pauses, secrets, thresholds, and events with a confirm."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.servers.receiver import Receiver
from tests.support.system.api import serving
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

LONG_RETRY = {"max_attempts": 30, "base_s": 600, "multiplier": 1, "max_s": 600, "jitter": 0}
STUBBORN = {"failures": 1, "cooldown_s": 600}


def fields(receiver: Receiver, target: str, **more: object) -> dict[str, Any]:
    """The fields of a subscription to *target* that takes every event."""
    return {"name": "shop", "url": receiver.url(target), "events": ["#"], **more}


async def created(client: httpx2.AsyncClient, tenant: str, values: dict[str, Any]) -> str:
    """Create a subscription and return its id."""
    answer = await client.post(f"/v1/tenants/{tenant}/subscriptions", json=values)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def known(daemon: Daemon, before: float) -> None:
    """Wait until the daemon has one more subscription."""
    await until(lambda: daemon.metric("leveret_subscriptions") > before, "the daemon knows it")


async def test_a_failing_endpoint_is_seen_and_reset_over_http(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """It is first in the list with its own answer; the reset closes its breaker and sends the rest (S3-3)."""
    target, before = "/hold/reset-http?n=1&status=503", shared.metric("leveret_subscriptions")
    async with serving(shared) as api, api.client(await api.token("--scope", "operate")) as client:
        values = fields(receiver, target, retry=LONG_RETRY, breaker=STUBBORN)
        one = await created(client, "resetting", values)
        await known(shared, before)
        event = await publisher.publish("resetting")
        await shared.logged("breaker.changed", tenant="resetting", after="open")

        async def lines() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await client.get("/v1/endpoints")).json()["items"]
            return found

        await shown(lines, lambda each: each["state"] == "open" and each["last_error"] is not None)
        worst = (await lines())[0]
        assert (worst["subscription_id"], worst["waiting"]) == (one, 1)
        assert worst["last_error"]["code"] == "503"
        done = (await client.post(f"/v1/endpoints/{one}/reset")).json()
        assert done["heard"] is True
        await all_delivered(receiver, target, [event])
        await shared.logged("breaker.changed", tenant="resetting", after="closed")
        attempts = (await client.get(f"/v1/endpoints/{one}/attempts")).json()["items"]

    assert done["released"] == 1
    assert attempts[-1]["status"] == 503


async def test_a_forced_opening_and_a_pause_hold_and_end(shared: Daemon, receiver: Receiver) -> None:
    """Events are published over HTTP; each waits until the reset or the resume."""
    target, before = "/ok/held-http", shared.metric("leveret_subscriptions")
    events = "/v1/tenants/holding/events"
    async with serving(shared) as api, api.client(await api.token("--scope", "operate")) as client:
        one = await created(client, "holding", fields(receiver, target))
        await known(shared, before)
        assert (await client.post(f"/v1/endpoints/{one}/open")).json() == {"heard": True}
        first = (await client.post(events, json={"type": "order.created", "data": 1})).json()["webhook_id"]
        await shared.logged("delivery.deferred", event_id=first)
        assert requests_of(receiver, target) == []
        await client.post(f"/v1/endpoints/{one}/reset")
        await all_delivered(receiver, target, [first])

        paths = "/v1/tenants/holding/subscriptions/shop"
        loaded = len(list(shared.lines("subscriptions.loaded")))
        assert (await client.post(f"{paths}/pause")).json()["changed"] is True
        await until(
            lambda: len(list(shared.lines("subscriptions.loaded"))) > loaded, "the daemon knows the pause"
        )
        second = (await client.post(events, json={"type": "order.created", "data": 2})).json()["webhook_id"]
        await shared.logged("delivery.deferred", event_id=second)
        assert requests_of(receiver, target, second) == []
        resumed = (await client.post(f"{paths}/resume")).json()
        await all_delivered(receiver, target, [second])

    assert resumed["heard"] is True


async def test_a_repeated_publish_sends_one_event_with_its_bytes(shared: Daemon, receiver: Receiver) -> None:
    """The same key and body: the same answer, one delivery. Another body: 422."""
    target, before = "/ok/published-http", shared.metric("leveret_subscriptions")
    events, key = "/v1/tenants/publishing/events", {"Idempotency-Key": "order-7"}
    body = b'{"type": "order.created", "data": {"total": 12345678901234567890.10}}'
    headers = key | {"Content-Type": "application/json"}
    async with serving(shared) as api, api.client(await api.token("--scope", "operate")) as client:
        await created(client, "publishing", fields(receiver, target))
        await known(shared, before)
        first, second = [await client.post(events, content=body, headers=headers) for _ in range(2)]
        other = await client.post(events, json={"type": "order.created", "data": 0}, headers=key)
        last = await client.post(events, json={"type": "order.created", "data": 3})
        await all_delivered(receiver, target, ["order-7", last.json()["webhook_id"]])

    assert first.status_code == second.status_code == 202
    assert (first.json()["repeated"], second.json()["repeated"]) == (False, True)
    assert first.json()["id"] == second.json()["id"] == "order-7"
    assert other.status_code == 422
    assert len(requests_of(receiver, target, "order-7")) == 1


async def test_a_subscription_in_the_documents_form_gets_events_and_a_test(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """S0-4: created in camelCase; a changed threshold and a new secret are in force for the next events."""
    target, before = "/ok/form-http", shared.metric("leveret_subscriptions")
    form: dict[str, Any] = {"name": "orders", "endpointUrl": receiver.url(target), "events": ["producto.*"]}
    form |= {"retryConfig": {"maxAttempts": 2, "baseDelay": 100}}
    async with serving(shared) as api:
        token = await api.token("--scope", "operate", "--tenant", "formal")
        async with api.client(token) as client:
            made = (await client.post("/webhook/subscriptions", json=form)).json()
            await known(shared, before)
            event = await publisher.publish("formal", "producto.creado")
            await all_delivered(receiver, target, [event])
            path = f"/v1/tenants/formal/subscriptions/{made['id']}"
            rotated = (await client.post(f"{path}/rotate", json={"expire_in": "1h"})).json()
            tried = (await client.post(f"{path}/test")).json()
            changed = await client.patch(f"/v1/endpoints/{made['id']}/thresholds", json={"failures": 2})

    assert tried["ok"] is True
    assert len(tried["signature"].split()) == 2, "both secrets sign"
    assert rotated["secret"] != made["secret"]
    assert {each["name"]: each["value"] for each in changed.json()["thresholds"]}["failures"] == 2
    assert any(r.webhook_id == tried["event_id"] for r in requests_of(receiver, target))
