"""Write the dashboard: ``python -m grafana.generate``; ``--check`` only compares it with the file.

Data flow: panels.py -> Grafana's builders -> grafana/dashboards/leveret.json, Grafana's home page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as commonmodel
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.panels import ROWS
from grafana.spec import Kind, PanelSpec, Query, all_queries

OUTPUT = Path(__file__).parent / "dashboards" / "leveret.json"
RUNBOOK = "/public/leveret/runbook.md"
"""Where Grafana of docker-compose.yml serves docs/runbook.md; users change this constant there."""

SOURCE = commonmodel.DataSourceRef(type_val="prometheus", uid="${datasource}")
LAST = common.ReduceDataOptions().calcs(["lastNotNull"])
Panel: TypeAlias = stat.Panel | timeseries.Panel | heatmap.Panel | bargauge.Panel | table.Panel


class _Thresholded(Protocol):
    def thresholds(self, thresholds: dashboard.ThresholdsConfig) -> object: ...


def dashboard_json() -> str:
    """Return the dashboard as Grafana reads it.

    Raises:
        ValueError: A panel reads a series that no worker has.
    """
    list(all_queries(ROWS))
    board = (
        dashboard.Dashboard("Leveret")
        .uid("leveret")
        .description("Webhooks from RabbitMQ: delivered, retried and parked, by tenant and endpoint.")
        .tags(["leveret"])
        .refresh("10s")
        .time("now-30m", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables([_datasource(), _labels("job"), _labels("instance", 'job=~"$job"'), _runbook()])
        .link(_link("Runbook", "${runbook}"))
    )
    ids = count(1)
    for row in ROWS:
        board.with_row(dashboard.Row(row.title).id(next(ids)))
        for spec in row.panels:
            board.with_panel(_panel(spec).id(next(ids)))
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _datasource() -> dashboard.DatasourceVariable:
    current = model.VariableOption(text="Prometheus", value="prometheus", selected=True)
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus").current(current)


def _labels(label: str, where: str = "") -> dashboard.QueryVariable:
    """Return a choice of the values of *label* among our workers."""
    everything = model.VariableOption(text="All", value="$__all", selected=True)
    selector = f"leveret_ready{{{where}}}" if where else "leveret_ready"
    return (
        dashboard.QueryVariable(label)
        .label(label.capitalize())
        .datasource(SOURCE)
        .query({"query": f"label_values({selector}, {label})", "refId": label})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(everything)
    )


def _runbook() -> dashboard.ConstantVariable:
    return dashboard.ConstantVariable("runbook").label("Runbook").value(RUNBOOK)


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).target_blank(True)


def _panel(spec: PanelSpec) -> Panel:
    panel = _KINDS[spec.kind](spec)
    panel.title(spec.title).description(spec.text).datasource(SOURCE).unit(spec.unit)
    panel.span(spec.width).height(spec.height)
    for number, query in enumerate(spec.queries):
        panel.with_target(_target(query, chr(ord("A") + number), spec.kind))
    if spec.warn is not None or spec.bad is not None:
        _add_thresholds(panel, spec)
    if spec.runbook:
        panel.links([_link("Runbook", f"${{runbook}}#{spec.runbook}")])
    return panel


def _target(query: Query, ref: str, kind: Kind) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.promql).legend_format(query.legend).ref_id(ref)
    target.datasource(SOURCE)
    if kind in (Kind.TABLE, Kind.BARS):
        target.instant()
    else:
        target.range()
    formats = {Kind.TABLE: PromQueryFormat.TABLE, Kind.HEAT: PromQueryFormat.HEATMAP}
    return target.format(formats.get(kind, PromQueryFormat.TIME_SERIES))


def _add_thresholds(panel: _Thresholded, spec: PanelSpec) -> None:
    """Colour values from *warn* and *bad* on, or below them if small values are bad."""
    warn, bad = spec.warn, spec.bad
    if warn is not None and bad is not None and bad < warn:
        steps = [(None, "red"), (bad, "yellow"), (warn, "green")]
    else:
        steps = [(None, "green")]
        steps += [(at, colour) for at, colour in ((warn, "yellow"), (bad, "red")) if at is not None]
    panel.thresholds(
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=at, color=colour) for at, colour in steps])
    )


def _stat(spec: PanelSpec) -> Panel:
    panel = stat.Panel().reduce_options(LAST).graph_mode(commonmodel.BigValueGraphMode.AREA)
    mappings: list[Any] = []
    if spec.values:
        words = {value: model.ValueMappingResult(text=text) for value, text in spec.values.items()}
        mappings = [model.ValueMap(options=words)]
    return panel.mappings(mappings)


def _lines(spec: PanelSpec) -> timeseries.Panel:
    panel = timeseries.Panel().min(0).fill_opacity(10).line_width(1)
    panel.show_points(commonmodel.VisibilityMode.NEVER)
    panel.tooltip(common.VizTooltipOptions().mode(commonmodel.TooltipDisplayMode.MULTI))
    if spec.warn is not None or spec.bad is not None:
        style = common.GraphThresholdsStyleConfig().mode(commonmodel.GraphThresholdsStyleMode.DASHED)
        panel.thresholds_style(style)
    return panel.max(1) if spec.unit == "percentunit" else panel


def _stack(spec: PanelSpec) -> Panel:
    stacking = common.StackingConfig().mode(commonmodel.StackingMode.NORMAL).group("A")
    return _lines(spec).fill_opacity(40).stacking(stacking)


def _heat(spec: PanelSpec) -> Panel:
    axis = heatmap.YAxisConfig().unit(spec.unit)
    return heatmap.Panel().calculate(False).y_axis(axis)


def _bars(spec: PanelSpec) -> Panel:
    panel = bargauge.Panel().reduce_options(LAST).min(0)
    panel.orientation(commonmodel.VizOrientation.HORIZONTAL)
    panel.display_mode(commonmodel.BarGaugeDisplayMode.BASIC)
    return panel.max(1) if spec.unit == "percentunit" else panel


def _table(spec: PanelSpec) -> Panel:
    """Join the queries by their labels, one column for each, named by its legend."""
    panel = table.Panel().with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    hidden: Mapping[str, object] = {"excludeByName": {"Time": True}}
    panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=hidden))
    for number, query in enumerate(spec.queries):
        name = model.DynamicConfigValue(id_val="displayName", value=query.legend)
        panel.override_by_name(f"Value #{chr(ord('A') + number)}", [name])
    return panel


_KINDS = {
    Kind.STAT: _stat,
    Kind.LINES: _lines,
    Kind.STACK: _stack,
    Kind.HEAT: _heat,
    Kind.BARS: _bars,
    Kind.TABLE: _table,
}


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with ``--check`` return 1 if it is stale."""
    text = dashboard_json()
    if "--check" in arguments:
        return 0 if OUTPUT.exists() and OUTPUT.read_text() == text else 1
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
