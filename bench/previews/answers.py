"""Ask Prometheus the queries of a panel, as Grafana does: at one time, or over the time that is shown."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana.spec import filled
from tests.support.processes.prometheus import Prometheus

STEPS = 120  #: points of a line
LABEL = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a graph, or one value: then it has a single point."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]  #: Unix time and value

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]

    @property
    def greatest(self) -> float:
        """The greatest value."""
        return max(value for _, value in self.points)


@dataclass(frozen=True, slots=True)
class Asker:
    """A Prometheus and the time that is shown, which ends when the asker is made."""

    prometheus: Prometheus
    start: float
    end: float

    @classmethod
    def over(cls, prometheus: Prometheus, seconds: float) -> Asker:
        """Show the last *seconds*."""
        now = time.time()
        return cls(prometheus, now - seconds, now)

    def lines(self, panel: Mapping[str, Any]) -> list[Line]:
        """Return the lines of a graph."""
        return [
            line
            for target in panel["targets"]
            for line in self.series(target["expr"], target["legendFormat"])
        ]

    def series(self, promql: str, legend: str) -> Iterator[Line]:
        """Yield the lines of one query."""
        step = (self.end - self.start) / STEPS
        for labels, points in self.prometheus.over(filled(promql), (self.start, self.end), step):
            numbers = [(at, value) for at, value in points if not math.isnan(value)]
            if numbers:
                yield Line(name=_named(legend, labels), labels=labels, points=numbers)

    def values(self, target: Mapping[str, Any]) -> list[Line]:
        """Return the values of a query now."""
        found = self.prometheus.samples(filled(target["expr"]))
        return [
            Line(name=_named(target["legendFormat"], labels), labels=labels, points=[(self.end, value)])
            for labels, value in found
        ]


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return LABEL.sub(lambda found: labels.get(found[1], ""), legend)


def column_of(panel: Mapping[str, Any], ref: str) -> dict[str, Any]:
    """Return the properties of the column of a table that shows the query *ref*."""
    wanted = (f"Value #{ref}", "Value")
    found = next(o for o in panel["fieldConfig"]["overrides"] if o["matcher"]["options"] in wanted)
    return {each["id"]: each["value"] for each in found["properties"]}


def joined(
    frames: Sequence[Sequence[Line]],
) -> tuple[list[str], list[tuple[dict[str, str], dict[int, float]]]]:
    """Join the values of a table's queries by the labels that all of them have, as the merge of Grafana does.

    Returns:
        The names of the labels, and for each row its labels and its values by the number of the query.
    """
    sets = [set(line.labels) for frame in frames for line in frame]
    common = sorted(set.intersection(*sets)) if sets else []
    names = [*common, *sorted({name for each in sets for name in each} - set(common))]
    rows: dict[tuple[str, ...], tuple[dict[str, str], dict[int, float]]] = {}
    for number, frame in enumerate(frames):
        for line in frame:
            labels, values = rows.setdefault(tuple(line.labels[name] for name in common), ({}, {}))
            labels.update(line.labels)
            values[number] = line.last
    return names, list(rows.values())
