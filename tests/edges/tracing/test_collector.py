"""Batches over HTTP: what is sent, and how each answer is understood."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from consumer.core.errors import ConfigError
from consumer.edges.tracing.collector import DETAIL_MAX, Answer, Collector, Fate
from consumer.edges.tracing.otlp import as_item, request_of
from tests.support.processes.children import free_port
from tests.support.servers.otlp_collector import OtlpCollector, attributes

BATCH = request_of({"service.name": "shop", "deployment.environment.name": "test"}, "1.2.3")([as_item(b"")])


def client(url: str, timeout_s: float = 5.0, ca_file: Path | None = None) -> Collector:
    """Return a client of *url*."""
    headers = (("user-agent", "leveret/1"), ("x-token", "s3cret"))
    return Collector(f"{url}/v1/traces", headers=headers, ca_file=ca_file, timeout_s=timeout_s)


async def answer_of(receiver: OtlpCollector) -> Answer:
    """Post one batch."""
    collector = client(receiver.url)
    try:
        return await collector.post(BATCH)
    finally:
        await collector.close()


async def test_a_batch_is_one_valid_request() -> None:
    """In protobuf and gzip, with the headers of the settings and the resource; nothing else is added."""
    async with OtlpCollector() as receiver:
        assert await answer_of(receiver) == Answer(Fate.TAKEN)

    [headers], [part] = receiver.posts, receiver.taken
    names = {name.lower(): value for name, value in headers.items()}
    assert (names["content-type"], names["content-encoding"]) == ("application/x-protobuf", "gzip")
    assert (names["x-token"], names["user-agent"]) == ("s3cret", "leveret/1")
    assert not {"traceparent", "tracestate", "baggage", "cookie"} & names.keys()
    assert attributes(part.resource.attributes) == {
        "service.name": "shop",
        "deployment.environment.name": "test",
    }
    [scope] = part.scope_spans
    assert (scope.scope.name, scope.scope.version, len(scope.spans)) == ("leveret", "1.2.3", 1)
    assert part.schema_url == scope.schema_url


@pytest.mark.parametrize(
    ("status", "headers", "answer"),
    [
        (200, {}, Answer(Fate.TAKEN)),
        (400, {}, Answer(Fate.REFUSED, detail="HTTP 400")),
        (401, {}, Answer(Fate.REFUSED, detail="HTTP 401")),
        (302, {"location": "/elsewhere"}, Answer(Fate.REFUSED, detail="HTTP 302")),
        (500, {}, Answer(Fate.REFUSED, detail="HTTP 500")),
        (429, {"retry-after": "7"}, Answer(Fate.LATER, wait_s=7.0, detail="HTTP 429")),
        (503, {"retry-after": "soon"}, Answer(Fate.LATER, detail="HTTP 503")),
        (502, {}, Answer(Fate.LATER, detail="HTTP 502")),
        (504, {}, Answer(Fate.LATER, detail="HTTP 504")),
    ],
)
async def test_each_status_has_its_meaning(status: int, headers: dict[str, str], answer: Answer) -> None:
    """Source: OpenTelemetry Protocol, "OTLP/HTTP Response"."""
    async with OtlpCollector(status=status, headers=headers) as receiver:
        assert await answer_of(receiver) == answer


async def test_a_partial_success_names_the_rejected_spans() -> None:
    """Any other content of a success changes nothing, however long."""
    async with OtlpCollector(rejected=1) as receiver:
        assert await answer_of(receiver) == Answer(Fate.TAKEN, rejected=1)
        receiver.content = b"\xff" * 1_000_000
        assert await answer_of(receiver) == Answer(Fate.TAKEN)


async def test_a_collector_that_is_away_or_hangs_may_take_the_batch_later() -> None:
    """The reason is short, on one line, and without a header."""
    async with OtlpCollector(gate=asyncio.Event()) as receiver:
        hanging = client(receiver.url, timeout_s=0.2)
        late = await hanging.post(BATCH)
        await hanging.close()
        assert receiver.gate is not None
        receiver.gate.set()
    away = client(f"http://127.0.0.1:{free_port()}")
    refused = await away.post(BATCH)
    await away.close()

    assert late == Answer(Fate.LATER, detail="no answer within 0.2 s")
    assert refused.fate is Fate.LATER
    assert refused.detail.isprintable()
    assert 0 < len(refused.detail) <= DETAIL_MAX
    assert "s3cret" not in refused.detail


def test_authorities_that_cannot_be_read_are_a_fault_of_the_settings(tmp_path: Path) -> None:
    """The daemon does not start with them."""
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=r"tracing.ca_file: cannot read"):
            client("https://collector.example", ca_file=tmp_path / name)
