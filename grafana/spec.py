"""Define a dashboard: rows of panels, each with a title, sentences, PromQL, units and thresholds.

Data flow: boards/*.py -> BoardSpec -> generate.py -> Grafana's JSON. Tests and the proof send each
query, its variables filled in, to a real Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Self, TypedDict, Unpack

from prometheus_client import CollectorRegistry

from grafana.known import BROKER_SAMPLES, PROCESS_SAMPLES
from metrics.series import Series

ON = 'job=~"$job",instance=~"$instance"'
"""The begin of every selector on our own series; written ``@`` in the boards."""
ON_BROKER = 'job=~"$rabbitmq"'
"""The begin of every selector on RabbitMQ's series; written ``#`` in the boards."""

VARIABLES: Mapping[str, str] = {
    "$job": ".*",
    "$instance": ".*",
    "$rabbitmq": ".*",
    "$tenant": ".*",
    "$subscription": ".*",
    "$__rate_interval": "20s",
    "$__interval": "5s",
    "$__range": "5m",
}
"""Values of the variables without Grafana: everything, and the time of four scrapes 5 s apart."""

SAMPLE = re.compile(r"\bleveret_[a-z_]+\b")
_OURS = re.compile(r"\b(?:leveret|process)_[a-z_]+\b")
_BROKER = re.compile(r"\brabbitmq_[a-z_]+(?=\{)")
_ALERTS = re.compile(r"\bALERTS(?:_FOR_STATE)?(?=\{)")


def filled(promql: str) -> str:
    """Return a query of a dashboard for Prometheus, with all jobs, instances, tenants and subscriptions.

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
    TIMELINE = "state-timeline"  #: a line of time for each name, red while its value is over 0
    ALERTS = "alertlist"  #: the alerts of Grafana's data sources; it has no query


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; in a table also its column."""

    expr: str  #: ``@`` in a selector means :data:`ON`, and ``#`` means :data:`ON_BROKER`
    legend: str = ""  #: ``{{label}}`` is filled in by Grafana; in a table the column's name
    unit: str = ""  #: of a table's column, where it differs from the panel's
    warn: float | None = None  #: of a table's column: yellow from here on
    bad: float | None = None  #: of a table's column: red from here on; under *warn* when small values are bad
    values: Mapping[str, str] | None = None  #: texts for values of a table's column

    @property
    def promql(self) -> str:
        """Return the expression with Grafana's variables in it."""
        return self.expr.replace("{@", "{" + ON).replace("{#", "{" + ON_BROKER)

    def behind(self, restriction: str) -> Query:
        """Return the query with *restriction* at the end of its expression."""
        return replace(self, expr=f"{self.expr}{restriction}")

    def samples(self) -> set[str]:
        """Return the names of all samples that the query reads."""
        return {name for names in (_OURS, _BROKER, _ALERTS) for name in names.findall(self.expr)}


class NumberOptions(TypedDict, total=False):
    """Fields of a panel with one number; see :class:`PanelSpec`."""

    unit: str
    warn: float
    bad: float
    runbook: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSpec:
    """One panel."""

    title: str
    text: str  #: its content, the meaning of its words, and the sign of a fault
    queries: tuple[Query, ...]
    kind: Kind = Kind.LINES
    unit: str = "short"  #: of Grafana's list, such as ``s``, ``percentunit``, ``reqps``; short: a number
    width: int = 8  #: of 24
    height: int = 8
    warn: float | None = None  #: yellow from here on
    bad: float | None = None  #: red from here on; under *warn* when small values are bad
    runbook: str = ""  #: anchor of a section in docs/runbook.md
    values: Mapping[str, str] | None = None  #: texts for values
    sort: str = ""  #: of a table: the column that it is sorted by, the greatest value first
    hidden: tuple[str, ...] = ()  #: of a table: labels that only distinguish its rows

    @classmethod
    def number(cls, title: str, text: str, query: Query, **more: Unpack[NumberOptions]) -> Self:
        """Return a small panel with one number: an eighth of the width."""
        return cls(title=title, text=text, queries=(query,), kind=Kind.STAT, width=3, height=4, **more)


@dataclass(frozen=True, slots=True)
class RowSpec:
    """A titled row of panels."""

    title: str
    panels: tuple[PanelSpec, ...]
    collapsed: bool = False  #: True for questions of experts: Grafana asks nothing until the row is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSpec:
    """One dashboard."""

    name: str  #: of its file, and the end of its uid
    title: str
    text: str
    rows: tuple[RowSpec, ...]

    @property
    def uid(self) -> str:
        """Return the id by which Grafana's links find the dashboard."""
        return f"leveret-{self.name}"

    @property
    def panels(self) -> Iterator[PanelSpec]:
        """Yield every panel, in order."""
        return chain.from_iterable(row.panels for row in self.rows)


def sample_names() -> frozenset[str]:
    """Return the name of every sample of ours that a worker can expose."""
    registry = CollectorRegistry()
    Series(registry)
    endings = {
        "counter": ("_total",),
        "histogram": ("_bucket", "_sum", "_count"),
        "gauge": ("",),
        "info": ("_info",),
    }
    return frozenset(
        family.name + ending for family in registry.collect() for ending in endings.get(family.type, ())
    )


def all_queries(boards: Iterable[BoardSpec]) -> Iterator[tuple[PanelSpec, Query]]:
    """Yield each query with its panel.

    Raises:
        ValueError: A query reads a series that nobody exposes, or lacks the selector.
    """
    known = sample_names() | PROCESS_SAMPLES | BROKER_SAMPLES | {"ALERTS", "ALERTS_FOR_STATE"}
    for panel in chain.from_iterable(board.panels for board in boards):
        for query in panel.queries:
            unknown = query.samples() - known
            if unknown or not query.samples():
                raise ValueError(f"{panel.title}: no known series: {sorted(unknown) or query.expr}")
            for names, begin in ((_OURS, "{@"), (_BROKER, "{#")):
                if len(names.findall(query.expr)) != query.expr.count(begin):
                    raise ValueError(f"{panel.title}: a selector without {begin[1]}: {query.expr}")
            yield panel, query
