"""Every panel of the dashboards has data under a scripted load, and every alert rule has both of its cases.

The load lasts for as long as the queries are asked: five tenants, endpoints that are well, slow, flaky, dead,
that refuse for good or ask to wait, so that there are retries, deferrals, open breakers and parked entries.
Some of those are replayed. The queries are those of the checked-in dashboards, their variables filled in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from grafana.alerts.case import RULES
from grafana.boards import BOARDS
from grafana.spec import SAMPLE, all_queries, filled
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.children import fetch
from tests.support.processes.daemon import Daemon, retry, subscription
from tests.support.processes.prometheus import Prometheus, promtool
from tests.support.repository.grafana_files import (
    ALERT_TESTS,
    ALERTS,
    checked_in_queries,
    untested_alerts,
)
from tests.support.servers.certificates import Authority

TENANTS = 5
WAVE = 50  #: events, ten for each tenant
WAVE_EVERY_S = 0.5
DATA_S = 120.0  #: every query has data within this time, or it is empty

ENDPOINTS: Mapping[str, str] = {
    "healthy": "/ok/healthy",
    "slow": "/slow/slow?s=0.4",
    "flaky": "/flaky/flaky?share=0.4",
    "dead": "/status/503/dead",
    "refusing": "/status/400/refusing",
    "asking": "/retry-after/asking?s=1&times=1",
}
QUIET = frozenset(
    (
        "leveret_pressed",
        "leveret_publish_failures_total",
        "leveret_queue_late_seconds",
        "leveret_queue_overdue_messages",
        "leveret_ready",
        "leveret_reloads_total",
        "leveret_spans_total",
        "leveret_stuck_queues",
        "leveret_subscriptions_disabled",
        "leveret_targets_interrupted_total",
        "leveret_repeated_deliveries_total",
        "leveret_connect_failures_total",
        "leveret_reconnects_total",
        "leveret_stale_settles_total",
        "leveret_subscriptions_locked",
        "leveret_task_failures_total",
        "leveret_records_dropped_total",
        "leveret_log_lines_dropped_total",
        "leveret_history_dropped_total",
        "leveret_history_lookups_missed_total",
        "leveret_dedicated_tenants",
        "leveret_fairness_tenants",
        "leveret_oldest_delivery_seconds",
    )
)
"""Trouble with the broker or the store, lanes of their own, a whole minute of waiting, five days of failure,
tracing: the load makes none, and 0 is what their panels shall show. The last reload may be long ago."""

BALANCED = "Unaccounted targets"
"""The title of a panel that shows 0 while nothing is lost."""

SETTINGS: Mapping[str, str] = {
    "LEVERET_SENDING__CONCURRENCY": "6",  # so few that messages wait in hand for their turn
    "LEVERET_FAIRNESS__TENANTS": '{"t04": 0.02}',  # it is served once in many rounds
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "1",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25,0.5,1,2,4]",
}

GOALS = (
    Goal(name="panel_queries_empty", text="0", unit="queries", n=len(list(all_queries(BOARDS)))),
    Goal(name="alerts_untested", text="0", unit="alerts", n=len(RULES)),
)


def subscriptions(sink: Sink) -> list[dict[str, object]]:
    """Return the subscriptions: each tenant has a healthy endpoint, and one that fails."""
    quick = retry(max_attempts=3, base_s=0.3, jitter=0.2)
    others = [name for name in ENDPOINTS if name != "healthy"]
    entries = []
    for number in range(TENANTS):
        tenant, other = f"t{number:02d}", others[number]
        for name in ("healthy", other):
            url = f"{sink.url(name)}{'&' if '?' in sink.url(name) else '?'}of={tenant}"
            more: dict[str, Any] = {"tenant": tenant, "retry": dict(quick)}
            if name == "dead":
                more["breaker"] = {"failures": 5, "cooldown_s": 2}
            if name == "flaky":
                more["breaker"] = {"failures": 0}
            entries.append(subscription(f"{tenant}-{name}", url, **more))
    return entries


@asynccontextmanager
async def load(daemon: Daemon, sink: Sink, amqp_url: str) -> AsyncIterator[None]:
    """Keep the daemon busy while the block runs, with some odd events; replay some parked entries."""
    await daemon.subscribe(subscriptions(sink))
    await daemon.cli("subscriptions", "rotate-secret", "t00/t00-healthy")  # the old one ends in a day
    busy = asyncio.create_task(_waves(amqp_url))
    replaying = asyncio.create_task(_replay(daemon))
    try:
        yield
    finally:
        for task in (busy, replaying):
            task.cancel()
        ends = await asyncio.gather(busy, replaying, return_exceptions=True)
    faults = [end for end in ends if isinstance(end, Exception)]
    if faults:
        raise faults[0]


async def _waves(amqp_url: str) -> None:
    for number in count():
        events = make_events(f"wave{number}", WAVE, tenants=TENANTS, size=200)
        odd = EventSpec(id=f"odd{number}", tenant="t00", type="order.created", body=b"{no json")
        nobody = EventSpec(id=f"nobody{number}", tenant="t99", type="order.created", body=b"{}")
        await publish(amqp_url, [*events, odd, nobody])
        await asyncio.sleep(WAVE_EVERY_S)


async def _replay(daemon: Daemon) -> None:
    """Replay the entries of one tenant, once there are some."""
    while True:
        done = await daemon.listing("parked", "replay", "--all", "--tenant", "t03")
        if done:
            return
        await asyncio.sleep(1)


async def empty_queries(prometheus: Prometheus, timeout_s: float) -> list[str]:
    """Ask every query of the dashboards until it has data; return those that never had.

    A zero counts as no data: the load gives every panel a value, except for :data:`QUIET`.
    """
    left = [(title, filled(promql)) for title, promql in checked_in_queries()]
    deadline = asyncio.get_running_loop().time() + timeout_s
    while left and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(1)
        left = await asyncio.to_thread(_without_data, prometheus, left)
    return [f"{title}: {promql}" for title, promql in left]


def _without_data(prometheus: Prometheus, queries: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    def has_data(title: str, promql: str) -> bool:
        quiet = title == BALANCED or QUIET.issuperset(SAMPLE.findall(promql))
        return prometheus.has_data(promql, zero_is_data=quiet)

    return [(title, promql) for title, promql in queries if not has_data(title, promql)]


def faults_of_files(prometheus: Prometheus, metrics: bytes) -> list[str]:
    """Return the findings of Prometheus' own checker in our files and in a worker's metrics.

    Args:
        prometheus: The server whose folder holds the files.
        metrics: The answer of a worker to a scrape.
    """
    checks = {
        "config": promtool("check", "config", prometheus.config),
        "rules": promtool("check", "rules", ALERTS),
        "tests": promtool("test", "rules", *ALERT_TESTS),
        "metrics": promtool("check", "metrics", text=metrics),
    }
    return [
        f"{name}: {(done.stdout + done.stderr).decode()[-800:]}"
        for name, done in checks.items()
        if done.returncode != 0 or (name == "metrics" and done.stderr)
    ]


def own_certificate(folder: Path) -> dict[str, str]:
    """Write a certificate of the API for a day; return the settings of an API that serves with it."""
    made = Authority(folder).pair("127.0.0.1")
    names = {"CERTIFICATE": made.certificate, "KEY": made.key}
    for name, pem in names.items():
        (folder / f"api-{name.lower()}.pem").write_text(pem)
    files = {f"LEVERET_API__TLS_{name}": str(folder / f"api-{name.lower()}.pem") for name in names}
    return {"LEVERET_API__LISTEN": "127.0.0.1:0", **files}


@asynccontextmanager
async def watched(
    folder: Path, amqp_url: str, broker_metrics_url: str
) -> AsyncIterator[tuple[Prometheus, Daemon]]:
    """Run endpoints, a daemon and Prometheus, under the load.

    Args:
        folder: For all of them.
        amqp_url: A broker without Leveret's queues yet.
        broker_metrics_url: Where that broker's own metrics are.
    """
    settings = {**SETTINGS, **await asyncio.to_thread(own_certificate, folder)}
    async with Sink(folder, ENDPOINTS) as sink, Daemon(folder, amqp_url, settings) as daemon:
        await daemon.start()
        targets = {"leveret": daemon.listen, "rabbitmq": urlsplit(broker_metrics_url).netloc}
        async with Prometheus(folder, targets) as prometheus:
            await prometheus.until("leveret_ready == 1")  # counts before the first scrape are not seen
            async with load(daemon, sink, amqp_url):
                yield prometheus, daemon


async def prove(bench: Bench) -> Sequence[Measured]:
    """Ask every query under the load; run the alerts' cases."""
    async with (
        Broker(bench) as broker,
        watched(bench.folder, broker.url, broker.endpoint.prometheus_url) as (prometheus, daemon),
    ):
        empty = await empty_queries(prometheus, DATA_S)
        sick = [rule["name"] for rule in prometheus.rules() if rule["health"] == "err"]
        faults = faults_of_files(
            prometheus, await asyncio.to_thread(fetch, f"http://{daemon.listen}/metrics")
        )
    bench.note("panel_queries_without_data", empty)
    bench.note("alert_rules_with_errors", sick)
    bench.note("promtool_faults", faults)
    alerts = list(RULES)
    untested = alerts if faults or sick else untested_alerts(alerts)
    return [
        Measured(name="panel_queries_empty", value=len(empty), n=len(checked_in_queries())),
        Measured(name="alerts_untested", value=len(untested), n=len(alerts)),
    ]


PROOF = Proof("panels", GOALS, prove)
