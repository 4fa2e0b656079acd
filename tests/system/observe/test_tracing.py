"""The spans of a daemon at a collector that decodes them, and a collector that is dead."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.processes.children import free_port
from tests.support.servers.otlp_collector import OtlpCollector, attributes
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, secret, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = {
    "traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01",
    "tracestate": "vendor=abc",
    "baggage": "user=b4ggage",
    "x-other": "0ther",
}
STOP_S = 30.0  #: for a whole stop, which takes 3 s at most for spans


def open_metrics(daemon: Daemon) -> str:
    """Return the answer to a scrape of a Prometheus that stores exemplars."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    with urlopen(Request(f"http://{daemon.listen}/metrics", headers=accept)) as answer:
        return bytes(answer.read()).decode()


async def test_the_spans_of_an_event_reach_the_collector(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """The event in the producer's trace, first attempts below it, retries in traces that link to it."""
    async with OtlpCollector() as collector:
        settings = {
            "LEVERET_TRACING__ENDPOINT": collector.url,
            "LEVERET_TRACING__HEADERS": "x-token=c0llector",
            "LEVERET_TRACING__ATTRIBUTES": '{"deployment.environment.name":"test"}',
        }
        daemon = Daemon(tmp_path, vhost, settings)
        await daemon.apply(
            to(receiver, "/ok/p4th?key=qu3ry", "traced", name="shop", headers={"x-key": "h3ader"}),
            to(receiver, "/status/503", "traced"),
        )
        async with daemon, EventPublisher(vhost) as publisher:
            await daemon.start()
            event_id = await publisher.publish("traced", headers=TRACED, body=b'{"card":"b0dy"}')
            await daemon.logged("delivery.parked")
            await collector.exported(5)
            shown = open_metrics(daemon)
            await until(lambda: daemon.metric("leveret_spans_total", result="exported") == 5, "the count")
            log = daemon.log.read_text()
            assert await daemon.stop() == 0

    [taken] = collector.spans("process")
    posts = collector.spans("POST")
    assert (taken.trace_id.hex(), taken.parent_span_id.hex()) == (TRACE_ID, PARENT_ID)
    assert taken.trace_state == "vendor=abc"
    assert attributes(taken.attributes)["messaging.message.id"] == event_id
    children = [span for span in posts if span.parent_span_id == taken.span_id]
    linked = [span for span in posts if span not in children]
    assert {str(attributes(span.attributes)["leveret.verdict"]) for span in children} == {
        "delivered",
        "retry",
    }
    assert [attributes(span.attributes)["leveret.attempt"] for span in linked] == [2, 3]
    assert [attributes(span.attributes)["leveret.verdict"] for span in linked] == ["retry", "park"]
    assert len({span.trace_id for span in (*linked, taken)}) == 3
    for span in linked:
        [link] = span.links
        assert (link.trace_id, link.span_id) == (taken.trace_id, taken.span_id)
    for part in collector.taken:
        resource = attributes(part.resource.attributes)
        assert (resource["service.name"], resource["deployment.environment.name"]) == ("leveret", "test")
    assert f'# {{trace_id="{TRACE_ID}"}}' in shown
    seen = collector.text()
    for word in ("b4ggage", "0ther", "b0dy", "p4th", "qu3ry", "h3ader", secret("traced", "/status/503")):
        assert word not in seen
    assert "c0llector" not in log
    assert all(headers.get("x-token") == "c0llector" for headers in collector.posts)


async def test_a_dead_collector_disturbs_no_delivery(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Everything is delivered, equal faults share a line, and the stop is clean and bounded."""
    settings = {"LEVERET_TRACING__ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    daemon = Daemon(tmp_path, vhost, settings)
    await daemon.apply(to(receiver, "/ok/dead", "dead"))
    async with daemon, EventPublisher(vhost) as publisher:
        await daemon.start()
        ids = await publisher.publish_many("dead", 200)
        counts = await all_delivered(receiver, "/ok/dead", ids)
        fault = await daemon.logged("tracing.failed")
        began = time.monotonic()
        assert await daemon.stop(STOP_S) == 0

    assert time.monotonic() - began < STOP_S
    assert set(counts.values()) == {1}
    assert fault["detail"]
    assert 1 <= daemon.count("tracing.failed") <= 2, "equal faults share a line"
    assert daemon.count("task.failed") == 0


async def test_a_hanging_collector_holds_up_no_stop(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Its last batch gets three seconds."""
    async with OtlpCollector(gate=asyncio.Event()) as collector:
        settings = {
            "LEVERET_TRACING__ENDPOINT": f"{collector.url}/v1/traces",
            "LEVERET_TRACING__TIMEOUT_S": "60",
        }
        daemon = Daemon(tmp_path, vhost, settings)
        await daemon.apply(to(receiver, "/ok/hangs", "hangs"))
        async with daemon, EventPublisher(vhost) as publisher:
            await daemon.start()
            ids = await publisher.publish_many("hangs", 20)
            await all_delivered(receiver, "/ok/hangs", ids)
            assert await daemon.stop(STOP_S) == 0
        assert collector.posts
        assert collector.gate is not None
        collector.gate.set()
