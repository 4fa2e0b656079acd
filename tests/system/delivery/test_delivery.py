"""An event in, signed webhooks out: each once, to whom it belongs, unchanged."""

from __future__ import annotations

import asyncio
import base64
import json
from uuid import UUID

import httpx2
from standardwebhooks import Webhook

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import BREAKER_OFF, all_delivered, deliveries, requests_of, secret, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until


async def test_each_subscriber_gets_it_signed(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Every endpoint that wants the type gets the data's bytes, signed, in one request.

    SW-01..12: the reference verifier takes it; nobody else's pattern or tenant matches (fault 16).
    """
    await shared.apply(
        to(receiver, "/ok/all", "acme"),
        to(receiver, "/ok/orders", "acme", events=["order.*"], headers={"x-api-version": "2"}),
        to(receiver, "/ok/invoices", "acme", events=["invoice.*"]),
        to(receiver, "/ok/other", "acme2"),
    )
    data = b'{"total": 1.10,  "name":"\xc3\xa9\\u00e9"}'

    event_id = await publisher.publish("acme", "order.created", data)

    await all_delivered(receiver, "/ok/all", [event_id])
    await all_delivered(receiver, "/ok/orders", [event_id])
    for target in ("/ok/all", "/ok/orders"):
        [request] = requests_of(receiver, target)
        body = Webhook(secret("acme", target)).verify(request.body, request.headers)
        assert body["type"] == "order.created"
        assert data in request.body
        assert request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"].startswith("leveret/")
    assert requests_of(receiver, "/ok/orders")[0].headers["x-api-version"] == "2"
    assert not requests_of(receiver, "/ok/invoices")
    assert not requests_of(receiver, "/ok/other")


async def test_an_event_without_tenant(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """Fault 16: without the tenant header it belongs to the default tenant, and to no other."""
    await shared.apply(to(receiver, "/ok/default", "default"), to(receiver, "/ok/sixteen", "sixteen"))

    nobody = await publisher.publish(None)
    known = await publisher.publish("sixteen")

    await all_delivered(receiver, "/ok/default", [nobody])
    await all_delivered(receiver, "/ok/sixteen", [known])
    assert len(receiver.requests) == 2


async def test_nobody_wants_it(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """Fault 7: an event without subscription is acked and counted ``unmatched``, not parked."""
    await shared.apply(to(receiver, "/ok/seven", "seven", events=["order.*"]))
    before = shared.metric("leveret_events_total", outcome="unmatched")

    await publisher.publish("seven", "invoice.paid")
    await publisher.publish("nobody-at-all", "order.created")
    last = await publisher.publish("seven", "order.created")

    await all_delivered(receiver, "/ok/seven", [last])
    await until(lambda: shared.metric("leveret_events_total", outcome="unmatched") == before + 2, "unmatched")
    assert shared.count("delivery.parked", tenant="seven") == 0


async def test_the_same_message_twice_has_one_id(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """SW-03, fault 10: a message that comes twice has one ``webhook-id``, hashed if need be."""
    await shared.apply(to(receiver, "/ok/ten", "ten"))

    for event_id in ("plain_1", "dotted.1 \u00e9", "plain_1", "dotted.1 \u00e9"):
        await publisher.publish("ten", event_id=event_id)

    await until(lambda: len(requests_of(receiver, "/ok/ten")) == 4, "four requests")
    ids = sorted(r.webhook_id for r in requests_of(receiver, "/ok/ten"))
    assert ids.count("plain_1") == 2
    assert len(set(ids)) == 2


def publish_nameless(management: httpx2.Client, amqp_url: str, tenant: str) -> None:
    """Publish an event without ``message_id``, which the AMQP library would make up."""
    vhost = amqp_url.rpartition("/")[2]
    properties = {"headers": {"tenant": tenant}, "timestamp": 1_700_000_000, "delivery_mode": 2}
    message = {"properties": properties, "routing_key": "order.created", "payload": "{}"}
    answer = management.post(
        f"/api/exchanges/{vhost}/leveret.events/publish", json=message | {"payload_encoding": "string"}
    )
    assert answer.raise_for_status().json() == {"routed": True}


async def test_without_id_it_takes_the_inbox_hop(
    shared: Daemon,
    publisher: EventPublisher,
    receiver: Receiver,
    management: httpx2.Client,
    module_vhost: str,
) -> None:
    """An event without ``message_id`` is published once more with a UUID version 7 and arrives once."""
    await shared.apply(to(receiver, "/ok/nameless", "nameless"))

    for _ in range(2):
        await asyncio.to_thread(publish_nameless, management, module_vhost, "nameless")
    last = await publisher.publish("nameless")

    await all_delivered(receiver, "/ok/nameless", [last])
    await until(lambda: len(requests_of(receiver, "/ok/nameless")) == 3, "three requests")
    made = [r for r in requests_of(receiver, "/ok/nameless") if r.webhook_id != last]
    assert {UUID(r.webhook_id).version for r in made} == {7}
    assert made[0].webhook_id != made[1].webhook_id
    assert {json.loads(r.body)["timestamp"] for r in made} == {"2023-11-14T22:13:20Z"}


async def test_content_types(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """Text becomes one JSON string, other bytes base64, with the content type beside."""
    await shared.apply(to(receiver, "/ok/types", "types"))

    text = await publisher.publish("types", body='a "b" \u20ac'.encode(), content_type="text/plain")
    image = await publisher.publish("types", body=b"\x00\xff\x10", content_type="image/png")
    empty = await publisher.publish("types", body=b"null")

    await all_delivered(receiver, "/ok/types", [text, image, empty])
    bodies = {r.webhook_id: json.loads(r.body) for r in requests_of(receiver, "/ok/types")}
    assert bodies[text]["data"] == 'a "b" \u20ac'
    assert base64.b64decode(bodies[image]["data"]) == b"\x00\xff\x10"
    assert bodies[image]["datacontenttype"] == "image/png"
    assert bodies[empty]["data"] is None


async def test_cloud_events(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """A structured and a binary CloudEvent arrive with type, time, id and source of their own."""
    await shared.apply(to(receiver, "/ok/cloud", "cloud"))
    known = {"specversion": "1.0", "source": "/shop", "type": "com.shop.paid", "time": "2024-05-01T10:00:00Z"}
    structured = json.dumps(known | {"id": "s1", "data": {"n": 1}}).encode()

    await publisher.publish("cloud", "x", structured, content_type="application/cloudevents+json")
    binary = {f"cloudEvents:{k}": v for k, v in (known | {"id": "b1"}).items()}
    await publisher.publish("cloud", "x", b'{"n":2}', headers=binary)

    await until(lambda: len(requests_of(receiver, "/ok/cloud")) == 2, "two requests")
    bodies = {b["id"]: b for b in (json.loads(r.body) for r in requests_of(receiver, "/ok/cloud"))}
    assert {k: b["data"]["n"] for k, b in bodies.items()} == {"s1": 1, "b1": 2}
    for body in bodies.values():
        assert (body["type"], body["source"]) == ("com.shop.paid", "/shop")
        assert body["timestamp"].startswith("2024-05-01T10:00:00")


async def test_bad_events_are_parked_and_others_flow(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Faults 1, 2, 3, 5, 6, 16: parked with raw bytes and reason; later events are delivered."""
    await shared.apply(to(receiver, "/ok/bad", "bad"))
    empty = await publisher.publish("bad", body=b"")
    trailing = await publisher.publish("bad", body=b'{"a":1} x')
    deep = await publisher.publish("bad", body=b"[" * 10_000)
    nan = await publisher.publish("bad", body=b'{"a":NaN}')
    large = await publisher.publish("bad", body=b'"' + b"x" * 262_143 + b'"')
    crossing = await publisher.publish("bad.*|.*", body=b"{}")
    good = await publisher.publish("bad")

    await all_delivered(receiver, "/ok/bad", [good])
    rows = {row["event_id"]: row for row in await shared.parked(6)}
    assert {e: rows[e]["reason"] for e in (empty, trailing, deep, nan, large, crossing)} == {
        empty: "malformed",
        trailing: "malformed",
        deep: "malformed",
        nan: "malformed",
        large: "too_large",
        crossing: "bad_tenant",
    }
    shown = json.loads(await shared.cli("parked", "show", str(rows[trailing]["id"])))
    assert shown["data"] == '{"a":1} x'
    assert len(requests_of(receiver, "/ok/bad")) == 1


async def test_expiration_ends_waiting_deliveries(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 19: an ``expiration`` that passes while a retry waits ends it, parked ``expired``."""
    slow = {"max_attempts": 20, "base_s": 0.4, "multiplier": 1, "jitter": 0}
    await shared.apply(to(receiver, "/status/503/late", "late", retry=slow, breaker=dict(BREAKER_OFF)))

    event_id = await publisher.publish("late", expiration=1.0)

    [entry] = await shared.parked(1, event_id=event_id)
    assert entry["reason"] == "expired"
    assert 1 <= len(requests_of(receiver, "/status/503/late")) <= 3


async def test_many_targets_are_split(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """Fault 72: one event with 250 subscribers becomes delivery messages of 100; each is sent once."""
    targets = [f"/ok/many/{index}" for index in range(250)]
    await shared.apply(*(to(receiver, target, "many") for target in targets))

    event_id = await publisher.publish("many")
    other = await publisher.publish("many")

    await until(lambda: len(receiver.requests) >= 500, "500 requests")
    for target in targets:
        assert deliveries(receiver, target) == {event_id: 1, other: 1}
