"""Real Prometheus on the checked-in files: every panel's query has data while a daemon is busy."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path

from bench.newcomer.panels import DATA_S, PROOF, empty_queries, faults_of_files, watched
from bench.observe.panels import asked, exposed
from consumer.edges.private_broker import BrokerEndpoint
from grafana.alerts.case import RULES
from grafana.boards import BOARDS
from grafana.spec import Kind, all_queries, filled
from tests.support.processes.children import fetch
from tests.support.repository.grafana_files import ALERTS, alert_names


def test_the_proof_counts_every_alert() -> None:
    """`alerts_untested` is of every rule that the generator makes, and the checked-in file has them all."""
    assert [goal.n for goal in PROOF.goals if goal.name == "alerts_untested"] == [len(RULES)]
    assert alert_names() == list(RULES)


async def test_every_panel_has_data_under_load(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> None:
    """Retries, parked, breakers and tenants are seen by the very files that compose mounts.

    So are the broker's series that the alerts read. The worker or the broker describes each series of the
    panels in its answer to a scrape. Each bar is a number; no rule has an error; Prometheus' own checker
    takes the configuration, the rules and what a scrape answers (fault 78).
    """
    async with watched(tmp_path, vhost, broker.prometheus_url) as (prometheus, daemon):
        empty = await empty_queries(prometheus, DATA_S)
        await prometheus.until('up{job="rabbitmq"} == 1')
        text = ALERTS.read_text()
        of_broker = set(re.findall(r"\brabbitmq_\w+\b", text))
        absent = [name for name in of_broker if not await asyncio.to_thread(prometheus.values, name)]
        bars = [filled(query.promql) for panel, query in all_queries(BOARDS) if panel.kind is Kind.BARS]
        drawn = {promql: await asyncio.to_thread(prometheus.values, promql) for promql in bars}
        rules = await asyncio.to_thread(prometheus.rules)
        metrics = await asyncio.to_thread(fetch, f"http://{daemon.listen}/metrics")
        of_node = await asyncio.to_thread(fetch, f"{broker.prometheus_url}/metrics")
        faults = faults_of_files(prometheus, metrics)

    assert empty == []
    assert asked() - exposed([metrics, of_node]) == set()
    assert [promql for promql, values in drawn.items() if any(map(math.isnan, values))] == []
    assert len(of_broker) >= 5
    assert absent == []
    assert len(rules) == text.count("- alert:")
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []
    assert faults == []
