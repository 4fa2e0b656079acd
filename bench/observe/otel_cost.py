"""Deliveries a second with spans of every event and attempt against none, by turns.

The collector is an nginx of its own that reads and forgets, so that only the worker's part is measured.
Before the race a collector that decodes counts the spans of some events: each event and each attempt has one.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.broker import Broker
from bench.core.throughput import FANOUT, SETTINGS, Shape
from bench.nginx import Nginx
from bench.observe.pairs import DELIVERIES, Pair, worst
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import publish
from tests.support.processes.daemon import Daemon
from tests.support.servers.otlp_collector import OtlpCollector

EVENTS = 50  #: of the count before the race
SPANS_OF_EVENT = 1 + FANOUT
COUNT_S = 60.0

GOALS = (Goal(name="otel_cost", text="≥ 0.75", unit="ratio", n=DELIVERIES),)


def traced_to(url: str) -> dict[str, str]:
    """Return the settings that record everything and send it to *url*."""
    return {"LEVERET_TRACING__ENDPOINT": url, "LEVERET_TRACING__SAMPLE_RATIO": "1"}


async def missing_spans(bench: Bench, broker: Broker, nginx: Nginx) -> int:
    """Deliver some events and return how many of their spans the collector did not get."""
    shape, wanted = Shape("count", fanout=FANOUT), EVENTS * SPANS_OF_EVENT
    async with OtlpCollector() as collector:
        settings = SETTINGS | traced_to(collector.url)
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            await daemon.subscribe(shape.subscriptions(nginx))
            await daemon.start()
            await publish(broker.url, shape.events(EVENTS * FANOUT), "leveret.events")
            await collector.exported(wanted, COUNT_S)
            daemon.terminate()
            await daemon.wait_exit(COUNT_S)
    return wanted - len({span.span_id for span in collector.spans()})


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count, then race with fan-out 1 and 20."""
    folder = bench.folder / "collector"
    folder.mkdir()
    async with Broker(bench) as broker, Nginx(bench.folder) as nginx, Nginx(folder) as collector:
        missing = await missing_spans(bench, broker, nginx)
        bench.note("otel_spans_missing", missing)
        pair = Pair(label="otel", on=traced_to(collector.url("v1/traces")), off={})
        ratio, deliveries = await worst(bench, broker, nginx, pair)
        posts = collector.served()
    bench.note("otel_posts", posts)
    valid = missing == 0 and posts > 0
    return [Measured(name="otel_cost", value=round(ratio, 3), n=deliveries, valid=valid)]


PROOF = Proof("otel_cost", GOALS, prove)
