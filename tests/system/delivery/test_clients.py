"""Events as ordinary clients write them: byte arrays for text, encodings with a character set."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CLOUDEVENT = {"id": "1", "source": "/shop", "specversion": "1.0", "type": "order.paid", "subject": "o-1"}
SOURCES = [
    {
        "name": "legacy",
        "exchange": "legacy",
        "tenant": "header:company",
        "type": "header:kind",
        "id": "header:ref",
        "time": "header:at",
    },
    {"name": "direct", "exchange": "direct", "tenant": "header:tenant"},
]


def as_bytes(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return *headers* with each text as a byte array, as Java's ``byte[]`` and Go's ``[]byte`` come."""
    return {name: bytearray(text.encode()) for name, text in headers.items()}


def bodies(receiver: Receiver, target: str) -> dict[str, dict[str, Any]]:
    """Return the requests to an endpoint, by ``webhook-id``."""
    return {str(r.webhook_id): json.loads(r.body) for r in requests_of(receiver, target)}


async def test_byte_arrays_are_read_as_text(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 90: tenant, let-through and trace headers, CloudEvents attributes, the rules of a source."""
    settings = {
        "LEVERET_SOURCES": json.dumps(SOURCES),
        "LEVERET_EVENTS__HEADERS": '["region"]',
    }
    async with await aio_pika.connect(vhost) as connection:
        channel = await connection.channel()
        for name in ("legacy", "direct"):
            await channel.declare_exchange(name, "topic", durable=True)
        async with running(tmp_path, vhost, settings) as daemon, EventPublisher(vhost) as publisher:
            await daemon.apply(to(receiver, "/ok/bytes", "acme", send_trace=True))
            tenant = as_bytes({"tenant": "acme"})
            more = as_bytes({"region": "eu", "traceparent": TRACE})
            plain = await publisher.publish(None, headers=tenant | more)
            cloud = as_bytes({f"cloudEvents_{name}": text for name, text in CLOUDEVENT.items()})
            await publisher.publish(None, event_id="cloud", headers=tenant | cloud)
            legacy = as_bytes(
                {"company": "acme", "kind": "invoice.paid", "ref": "inv-1", "at": "2022-11-03T20:26:10Z"}
            )
            for exchange, headers in (("legacy", legacy), ("direct", tenant)):
                target = await channel.get_exchange(exchange, ensure=False)
                await target.publish(aio_pika.Message(b"[1]", headers=headers, message_id=exchange), "k")

            await all_delivered(receiver, "/ok/bytes", [plain, "inv-1", "direct"])
            await daemon.logged("delivery.attempted", type="order.paid")
            assert not await daemon.parked(0)
    found = bodies(receiver, "/ok/bytes")
    assert found[plain]["region"] == "eu"
    assert (found["inv-1"]["type"], found["inv-1"]["timestamp"]) == ("invoice.paid", "2022-11-03T20:26:10Z")
    [paid] = [body for body in found.values() if body["type"] == "order.paid"]
    assert (paid["subject"], paid["source"]) == ("o-1", "/shop")
    traces = {r.webhook_id: r.headers.get("traceparent") for r in requests_of(receiver, "/ok/bytes")}
    assert traces[plain] == TRACE


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip, UTF-8", gzip.compress(b'{"n":1}')),
        ("gzip:UTF-8", gzip.compress(b'{"n":1}')),
        ("deflate, UTF-8", zlib.compress(b'{"n":1}')),
        ("UTF-8", b'{"n":1}'),
    ],
)
async def test_a_body_as_spring_compresses_it(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver, encoding: str, packed: bytes
) -> None:
    """Fault 90: the character set beside the compression changes nothing."""
    tenant = "spring-" + "".join(filter(str.isalnum, encoding))
    target = f"/ok/{tenant}"
    await shared.apply(to(receiver, target, tenant))

    sent = await publisher.publish(tenant, body=packed, content_encoding=encoding)

    await all_delivered(receiver, target, [sent])
    assert bodies(receiver, target)[sent]["data"] == {"n": 1}


async def test_an_encoding_that_is_not_read_says_so(shared: Daemon, publisher: EventPublisher) -> None:
    """Fault 90: Spring's zip and kombu's bz2 are parked; the reason names the unread encoding."""
    await publisher.publish("zip", body=b"PK", content_encoding="zip, UTF-8")
    await publisher.publish("bz2", body=b"BZh9", headers={"compression": "application/x-bz2"})

    details = {
        str(e["tenant"]): str(e["detail"]) for e in await shared.parked(2, reason="unsupported_format")
    }

    assert "'zip' is not supported" in details["zip"]
    assert "compression 'application/x-bz2' is not supported" in details["bz2"]
