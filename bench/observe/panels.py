"""Under the mixed load every panel has data, a legend and a unit, and reads only series that are exposed.

The load is that of bench/newcomer/panels.py: well, slow, flaky and dead endpoints of five tenants. The panels
are those of the checked-in dashboards. The known series are those that the worker and RabbitMQ themselves
answer to a scrape, and not a list of the repository.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.broker import Broker
from bench.newcomer.panels import DATA_S, empty_queries, watched
from bench.prove import Bench, Goal, Measured, Proof
from grafana.boards import BOARDS
from tests.support.processes.children import fetch
from tests.support.processes.prometheus import Prometheus
from tests.support.repository.grafana_files import (
    DASHBOARDS,
    checked_in_panels,
    checked_in_queries,
    read_board,
)

PANELS = sum(len(list(board.panels)) for board in BOARDS)
NAME = re.compile(r"\b(?:leveret|process|rabbitmq)_[a-z_]+(?=[{\[])|(?<=label_values\()[a-z_]+")
TYPE = re.compile(rb"^# TYPE (\w+) (\w+)$", re.MULTILINE)
OF_HISTOGRAM = ("_bucket", "_sum", "_count")

GOALS = (
    Goal(name="panels_empty", text="0", unit="panels", n=PANELS),
    Goal(name="panels_without_legend_or_unit", text="0", unit="panels", n=PANELS),
    Goal(name="panel_metrics_unknown", text="0", unit="series", n=60),
)


def exposed(scrapes: Sequence[bytes]) -> frozenset[str]:
    """Return the names of all samples that these answers to a scrape describe, also those without a value."""
    return frozenset(
        name.decode() + ending
        for scrape in scrapes
        for name, kind in TYPE.findall(scrape)
        for ending in (OF_HISTOGRAM if kind == b"histogram" else ("",))
    )


def asked() -> frozenset[str]:
    """Return the names of all samples that panels, variables and marks of the dashboards read."""
    texts = [promql for _, promql in checked_in_queries()]
    for path in DASHBOARDS:
        board = read_board(path)
        texts += [mark["expr"] for mark in board["annotations"]["list"]]
        queries = [variable["query"] for variable in board["templating"]["list"]]
        texts += [query["query"] for query in queries if isinstance(query, dict)]
    return frozenset(name for text in texts for name in NAME.findall(text))


def without_legend_or_unit() -> list[str]:
    """Return the titles of the panels that lack a unit, or a name for one of their lines, bars or columns."""
    return [panel["title"] for panel in checked_in_panels() if any(_lacks(panel))]


def _lacks(panel: Mapping[str, Any]) -> Iterator[bool]:
    if panel["type"] == "alertlist":  # it has no lines and no values
        return
    yield not panel["fieldConfig"]["defaults"].get("unit")
    yield from (not target.get("legendFormat") for target in panel["targets"])
    legend = panel["options"].get("legend", {})
    if panel["type"] == "timeseries":
        yield not legend.get("showLegend")
        yield legend.get("displayMode") != "table"
        yield not {"lastNotNull", "max"} <= set(legend.get("calcs", ()))
    if panel["type"] == "state-timeline":
        yield not legend.get("showLegend")
    if panel["type"] == "table":
        overrides = panel["fieldConfig"]["overrides"]
        columns = {each["matcher"]["options"]: {p["id"] for p in each["properties"]} for each in overrides}
        for target in panel["targets"]:
            yield not {"displayName", "unit"} <= columns.get(f"Value #{target['refId']}", set())


async def empty_panels(prometheus: Prometheus, timeout_s: float) -> dict[str, list[str]]:
    """Return the panels of which a query never had data, with these queries; the alert list needs rules."""
    found: dict[str, list[str]] = {}
    for line in await empty_queries(prometheus, timeout_s):
        title, _, promql = line.partition(": ")
        found.setdefault(title, []).append(promql)
    if not await asyncio.to_thread(prometheus.rules):
        found["Alerts"] = []
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Ask every query under the load; look at the files, and at the series that are exposed."""
    async with (
        Broker(bench) as broker,
        watched(bench.folder, broker.url, broker.endpoint.prometheus_url) as (prometheus, daemon),
    ):
        empty = await empty_panels(prometheus, DATA_S)
        bases = (f"http://{daemon.listen}", broker.endpoint.prometheus_url)
        scrapes = [await asyncio.to_thread(fetch, f"{base}/metrics") for base in bases]
    names = asked()
    unknown = sorted(names - exposed(scrapes))
    faulty = without_legend_or_unit()
    bench.note("panels_without_data", empty)
    bench.note("panels_that_lack_a_legend_or_unit", faulty)
    bench.note("unknown_series", unknown)
    return [
        Measured(name="panels_empty", value=len(empty), n=len(checked_in_panels())),
        Measured(name="panels_without_legend_or_unit", value=len(faulty), n=len(checked_in_panels())),
        Measured(name="panel_metrics_unknown", value=len(unknown), n=len(names)),
    ]


PROOF = Proof("panels", GOALS, prove)
