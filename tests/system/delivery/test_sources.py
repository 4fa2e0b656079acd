"""Foreign exchanges as sources; several daemons on one broker."""

from __future__ import annotations

import json
from pathlib import Path

import aio_pika

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

SOURCES = json.dumps(
    [
        {"name": "plain", "exchange": "shop.plain", "routing_key": "order.#"},
        {
            "name": "legacy",
            "exchange": "shop.legacy",
            "tenant": "body:/company/id",
            "type": "header:kind",
            "id": "body:/id",
            "data": "body:/payload",
        },
    ]
)


async def test_events_of_foreign_exchanges(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """One source bound directly, one read through its inbox; both arrive as events."""
    connection = await aio_pika.connect(vhost)
    async with connection:
        channel = await connection.channel()
        plain = await channel.declare_exchange("shop.plain", "topic", durable=True)
        legacy = await channel.declare_exchange("shop.legacy", "fanout", durable=True)
        async with running(tmp_path, vhost, {"LEVERET_SOURCES": SOURCES}) as daemon:
            await daemon.apply(to(receiver, "/ok/sources", "acme"))
            await plain.publish(
                aio_pika.Message(b'{"n":1}', message_id="p1", headers={"tenant": "acme"}), "order.paid"
            )
            body = b'{"company":{"id":"acme"},"id":"l1","payload":{"n" : 2}}'
            await legacy.publish(aio_pika.Message(body, headers={"kind": "invoice.paid"}), "whatever")

            await all_delivered(receiver, "/ok/sources", ["p1", "l1"])
            await until(lambda: daemon.metric("leveret_requests_in_flight") == 0, "nothing in flight")
    requests = {r.webhook_id: r for r in requests_of(receiver, "/ok/sources")}
    assert json.loads(requests["p1"].body)["type"] == "order.paid"
    assert json.loads(requests["l1"].body)["type"] == "invoice.paid"
    assert b'"data":{"n" : 2}' in requests["l1"].body
    assert len(requests_of(receiver, "/ok/sources")) == 2


async def test_two_prefixes_share_a_broker(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Two instances with different prefixes work side by side and never mix."""
    other = {"LEVERET_TOPOLOGY__PREFIX": "second"}
    async with (
        running(tmp_path, vhost, name="one") as one,
        running(tmp_path, vhost, other, name="two") as two,
        EventPublisher(vhost) as to_one,
        EventPublisher(vhost, "second") as to_two,
    ):
        target = "/retry-after/{}?s=0&times=1"
        await one.apply(to(receiver, target.format("one"), "t"))
        await two.apply(to(receiver, target.format("two"), "t"))

        first, second = await to_one.publish("t"), await to_two.publish("t")

        assert await all_delivered(receiver, target.format("one"), [first]) == {first: 1}
        assert await all_delivered(receiver, target.format("two"), [second]) == {second: 1}


async def test_two_workers_share_the_work(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 75: two workers of one prefix share the events; one killed, the other delivers the rest."""
    target = "/slow/shared?s=0.1"
    settings = {"LEVERET_WINDOWS__LANE_PREFETCH": "20", "LEVERET_TOPOLOGY__LANES": "1"}
    one = Daemon(tmp_path, vhost, settings, "one")
    two = Daemon(tmp_path, vhost, {**settings, "LEVERET_HOME": str(one.home)}, "two")
    await one.apply(to(receiver, target, "t", concurrency=10))
    try:
        await one.start()
        await two.start()
        async with EventPublisher(vhost) as publisher:
            ids = await publisher.publish_many("t", 200)
        await until(lambda: one.count("delivery.attempted") and two.count("delivery.attempted"), "both work")
        await one.kill()

        found = await all_delivered(receiver, target, ids)
    finally:
        await one.__aexit__()
        await two.__aexit__()
    assert found.keys() == set(ids)
    assert sum(count > 1 for count in found.values()) <= 20, "more came twice than the dead one had in hand"
