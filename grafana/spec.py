"""Define a panel: a title, a sentence, PromQL on our own series, a unit, thresholds.

Data flow: rows_*.py -> PanelSpec -> generate.py -> Grafana's JSON. Tests and the proof fill in the variables
and send each query to a real Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from prometheus_client import CollectorRegistry

from metrics.series import Series

ON = 'job=~"$job",instance=~"$instance"'
"""The begin of every selector; written ``@`` in the rows."""

VARIABLES: Mapping[str, str] = {
    "$job": ".*",
    "$instance": ".*",
    "$__rate_interval": "20s",
    "$__range": "5m",
}
"""Values of the variables without Grafana: everything, and the time of four scrapes 5 s apart."""

SAMPLE = re.compile(r"\bleveret_[a-z_]+\b")


def filled(promql: str) -> str:
    """Return a query of the dashboard for Prometheus, with all jobs and instances.

    Raises:
        ValueError: The query has a variable that is not in :data:`VARIABLES`.
    """
    for name, value in VARIABLES.items():
        promql = promql.replace(name, value)
    if "$" in promql:
        raise ValueError(f"an unknown variable: {promql}")
    return promql


class Kind(StrEnum):
    """The kind of drawing of a panel."""

    STAT = "stat"
    LINES = "timeseries"
    STACK = "stack"  #: a time series whose lines add up
    HEAT = "heatmap"
    BARS = "bargauge"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression."""

    expr: str  #: ``@`` in a selector means :data:`ON`
    legend: str = ""  #: ``{{label}}`` is filled in by Grafana; in a table the column's name

    @property
    def promql(self) -> str:
        """Return the expression with Grafana's variables in it."""
        return self.expr.replace("@", ON)

    def series(self) -> set[str]:
        """Return the names of the samples that the query reads."""
        return set(SAMPLE.findall(self.expr))


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSpec:
    """One panel."""

    title: str
    text: str  #: its content, and the sign of a fault, in a sentence or two
    queries: tuple[Query, ...]
    kind: Kind = Kind.LINES
    unit: str = "short"  #: of Grafana's list, such as ``s``, ``percentunit``, ``reqps``
    width: int = 8  #: of 24
    height: int = 7
    warn: float | None = None  #: yellow from here on
    bad: float | None = None  #: red from here on; under *warn* when small values are bad
    runbook: str = ""  #: anchor of a section in docs/runbook.md
    values: Mapping[str, str] | None = None  #: texts for values of a stat


@dataclass(frozen=True, slots=True)
class RowSpec:
    """A titled row of panels."""

    title: str
    panels: tuple[PanelSpec, ...]


def sample_names() -> frozenset[str]:
    """Return the name of every sample that a worker can expose."""
    registry = CollectorRegistry()
    Series(registry)
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return frozenset(
        family.name + ending for family in registry.collect() for ending in endings.get(family.type, ())
    )


def all_queries(rows: tuple[RowSpec, ...]) -> Iterator[tuple[PanelSpec, Query]]:
    """Yield each query with its panel.

    Raises:
        ValueError: A query reads a series that no worker has, or lacks the selector.
    """
    known = sample_names()
    for panel in chain.from_iterable(row.panels for row in rows):
        for query in panel.queries:
            unknown = query.series() - known
            if unknown or not query.series():
                raise ValueError(f"{panel.title}: no series of ours: {sorted(unknown) or query.expr}")
            if len(SAMPLE.findall(query.expr)) != query.expr.count("{@"):
                raise ValueError(f"{panel.title}: a selector without @: {query.expr}")
            yield panel, query
