"""Ask the queries of the overview, and find the names that its panels show in a colour of trouble.

Data flow: grafana/dashboards/overview.json -> queries -> Prometheus -> rows and lines -> :class:`Naming`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.previews.answers import Asker, column_of
from bench.previews.units import colour_of
from tests.support.data import ROOT
from tests.support.processes.prometheus import Prometheus
from tests.support.repository.grafana_files import panels_of, read_board

OVERVIEW = ROOT / "grafana" / "dashboards" / "overview.json"
SHOWN_S = 300.0
ALARMING = frozenset({"yellow", "red"})
LISTS = frozenset({"bargauge", "state-timeline"})  #: kinds of panels with a name for each value


@dataclass(frozen=True, slots=True)
class Naming:
    """The place at which the overview names a culprit."""

    panel: str
    column: str  #: or the query's legend
    value: float
    cause: str = ""  #: as that cell names it


def naming(prometheus: Prometheus, culprit: str, cause: str = "") -> Naming | None:
    """Return where the overview names *culprit* now as in trouble; None: nowhere.

    Args:
        prometheus: Answers the queries.
        culprit: Name of a subscription, tenant, queue or node.
        cause: That the same cell has to name; empty: any or none.
    """
    asker = Asker.over(prometheus, SHOWN_S)
    for panel in panels_of(read_board(OVERVIEW)):
        for found in _of_panel(panel, asker, culprit):
            if cause in ("", found.cause):
                return found
    return None


def _of_panel(panel: Mapping[str, Any], asker: Asker, culprit: str) -> Iterator[Naming]:
    if panel["type"] == "table":
        yield from _of_table(panel, asker, culprit)
    if panel["type"] in LISTS:
        thresholds = panel["fieldConfig"]["defaults"].get("thresholds")
        for target in panel["targets"]:
            for line in asker.values(target):
                if culprit in line.labels.values() and colour_of(line.last, thresholds) in ALARMING:
                    yield Naming(panel["title"], target["legendFormat"], line.last)


def _of_table(panel: Mapping[str, Any], asker: Asker, culprit: str) -> Iterator[Naming]:
    """Yield the alarming cells of the culprit's rows; without thresholds, a row is itself the alarm."""
    columns = [column_of(panel, target["refId"]) for target in panel["targets"]]
    alarms = any(_alarms(column) for column in columns)
    for column, target in zip(columns, panel["targets"], strict=True):
        for line in asker.values(target):
            is_alarming = not alarms or colour_of(line.last, column.get("thresholds")) in ALARMING
            if is_alarming and culprit in line.labels.values():
                yield Naming(panel["title"], column["displayName"], line.last, line.labels.get("cause", ""))


def _alarms(column: Mapping[str, Any]) -> bool:
    return any(step["color"] in ALARMING for step in column.get("thresholds", {}).get("steps", ()))
