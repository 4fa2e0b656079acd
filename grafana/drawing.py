"""Draw a panel with Grafana's builders: legend, unit, thresholds, columns, links.

Data flow: PanelSpec -> panel() -> generate.py puts it on a dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as commonmodel
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.spec import Kind, PanelSpec, Query

SOURCE = commonmodel.DataSourceRef(type_val="prometheus", uid="${datasource}")
LAST = common.ReduceDataOptions().calcs(["lastNotNull"])
ONE_SUBSCRIPTION, ONE_TENANT = "subscription", "tenant"
DETAILS = "/d/leveret-endpoints?${datasource:queryparam}&${job:queryparam}&${__url_time_range}&var-"
"""Begin of a link from a name in a table to the dashboard of endpoints; the variable and its value follow."""

Panel: TypeAlias = (
    stat.Panel
    | timeseries.Panel
    | heatmap.Panel
    | bargauge.Panel
    | table.Panel
    | statetimeline.Panel
    | dashboard.Panel
)


class _Thresholded(Protocol):
    def thresholds(self, thresholds: dashboard.ThresholdsConfig) -> object: ...


def link(title: str, url: str) -> dashboard.DashboardLink:
    """Return a link that opens in a new tab."""
    return dashboard.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).target_blank(True)


def panel(spec: PanelSpec) -> Panel:
    """Return the panel for Grafana, without an id."""
    drawn = _KINDS[spec.kind](spec)
    drawn.title(spec.title).description(spec.text).unit(spec.unit)
    drawn.span(spec.width).height(spec.height)
    for ref, query in _by_ref(spec):
        drawn.datasource(SOURCE).with_target(_target(query, ref, spec.kind))
    if spec.warn is not None or spec.bad is not None:
        drawn.thresholds(_thresholds(spec.warn, spec.bad))
    if spec.values:
        drawn.mappings(_mappings(spec.values))
    if spec.runbook:
        drawn.links([link("Runbook", f"${{runbook}}#{spec.runbook}")])
    return drawn


def _by_ref(spec: PanelSpec) -> list[tuple[str, Query]]:
    """Return the queries with the letters that Grafana calls them by."""
    return [(chr(ord("A") + number), query) for number, query in enumerate(spec.queries)]


def _target(query: Query, ref: str, kind: Kind) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.promql).legend_format(query.legend).ref_id(ref)
    target.datasource(SOURCE)
    if kind in (Kind.TABLE, Kind.BARS):
        target.instant()
    else:
        target.range()
    formats = {Kind.TABLE: PromQueryFormat.TABLE, Kind.HEAT: PromQueryFormat.HEATMAP}
    return target.format(formats.get(kind, PromQueryFormat.TIME_SERIES))


def _steps(warn: float | None, bad: float | None) -> list[model.Threshold]:
    """Return the colours from *warn* and *bad* on, or below them if small values are bad."""
    if warn is not None and bad is not None and bad < warn:
        steps = [(None, "red"), (bad, "yellow"), (warn, "green")]
    else:
        steps = [(None, "green")]
        steps += [(at, colour) for at, colour in ((warn, "yellow"), (bad, "red")) if at is not None]
    return [model.Threshold(value=at, color=colour) for at, colour in steps]


def _thresholds(warn: float | None, bad: float | None) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(_steps(warn, bad))


def _mappings(values: Mapping[str, str]) -> list[model.ValueMapping]:
    words = {value: model.ValueMappingResult(text=text) for value, text in values.items()}
    return [model.ValueMap(options=words)]


def _stat(spec: PanelSpec) -> Panel:
    drawn = stat.Panel().reduce_options(LAST).graph_mode(commonmodel.BigValueGraphMode.AREA)
    return drawn.color_mode(commonmodel.BigValueColorMode.VALUE).no_value("none")


def _lines(spec: PanelSpec) -> timeseries.Panel:
    drawn = timeseries.Panel().fill_opacity(10).line_width(1).min(0)
    drawn.show_points(commonmodel.VisibilityMode.NEVER).legend(_legend())
    drawn.tooltip(
        common.VizTooltipOptions()
        .mode(commonmodel.TooltipDisplayMode.MULTI)
        .sort(commonmodel.SortOrder.DESCENDING)
    )
    if spec.warn is not None or spec.bad is not None:
        style = common.GraphThresholdsStyleConfig().mode(commonmodel.GraphThresholdsStyleMode.DASHED)
        drawn.thresholds_style(style)
    return drawn.max(1) if spec.unit == "percentunit" else drawn


def _legend() -> common.VizLegendOptions:
    """Return a table of the lines under the graph: each with its last and greatest value."""
    legend = common.VizLegendOptions().show_legend(True).display_mode(commonmodel.LegendDisplayMode.TABLE)
    legend.placement(commonmodel.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"])
    return legend.sort_by("Last *").sort_desc(True)


def _stack(spec: PanelSpec) -> Panel:
    stacking = common.StackingConfig().mode(commonmodel.StackingMode.NORMAL).group("A")
    return _lines(spec).fill_opacity(40).stacking(stacking)


def _heat(spec: PanelSpec) -> Panel:
    axis = heatmap.YAxisConfig().unit(spec.unit)
    return heatmap.Panel().calculate(False).y_axis(axis).show_legend()


def _bars(spec: PanelSpec) -> Panel:
    drawn = bargauge.Panel().reduce_options(LAST).min(0)
    drawn.orientation(commonmodel.VizOrientation.HORIZONTAL)
    drawn.display_mode(commonmodel.BarGaugeDisplayMode.BASIC).no_value("none")
    return drawn.max(1) if spec.unit == "percentunit" else drawn


def _timeline(spec: PanelSpec) -> Panel:
    drawn = statetimeline.Panel().merge_values(True).show_value(commonmodel.VisibilityMode.NEVER)
    drawn.row_height(0.8).fill_opacity(80).line_width(0)
    legend = common.VizLegendOptions().show_legend(True).display_mode(commonmodel.LegendDisplayMode.LIST)
    scheme = dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)
    return drawn.legend(legend.placement(commonmodel.LegendPlacement.BOTTOM)).color_scheme(scheme)


def _alerts(spec: PanelSpec) -> Panel:
    """List the alerts by name, from every data source with rules; Grafana's SDK lacks this kind."""
    return (
        dashboard.Panel()
        .type("alertlist")
        .options(
            {
                "alertInstanceLabelFilter": "",
                "alertName": "Leveret",
                "dashboardAlerts": False,
                "datasource": "",
                "groupBy": [],
                "groupMode": "default",
                "maxItems": 30,
                "showInstances": True,
                "sortOrder": 5,  # the newest first
                "stateFilter": {
                    "error": True,
                    "firing": True,
                    "noData": False,
                    "normal": False,
                    "pending": True,
                    "recovering": True,
                },
                "viewMode": "list",
            }
        )
    )


def _table(spec: PanelSpec) -> Panel:
    """Join the queries by their labels, one column for each, named by its legend."""
    drawn = table.Panel().no_value("-")
    drawn.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    hidden: Mapping[str, object] = {"excludeByName": dict.fromkeys(("Time", *spec.hidden), True)}
    drawn.with_transformation(model.DataTransformerConfig(id_val="organize", options=hidden))
    for ref, query in _by_ref(spec):
        drawn.override_by_name(f"Value #{ref}" if len(spec.queries) > 1 else "Value", _column(query, spec))
    for name in (ONE_SUBSCRIPTION, ONE_TENANT):
        target = {"title": "Details", "url": f"{DETAILS}{name}=${{__value.text:percentencode}}"}
        drawn.override_by_name(name, [model.DynamicConfigValue(id_val="links", value=[target])])
    drawn.override_by_name("rabbitmq_node", [model.DynamicConfigValue(id_val="displayName", value="node")])
    if spec.sort:
        drawn.sort_by([common.TableSortByFieldState().display_name(spec.sort).desc(True)])
    return drawn


def _column(query: Query, spec: PanelSpec) -> list[model.DynamicConfigValue]:
    """Return the properties of a column: name, unit, colours and words."""
    properties: dict[str, object] = {"displayName": query.legend, "unit": query.unit or spec.unit}
    if query.warn is not None or query.bad is not None:
        steps = [{"value": step.value, "color": step.color} for step in _steps(query.warn, query.bad)]
        properties["thresholds"] = {"mode": "absolute", "steps": steps}
        properties["custom.cellOptions"] = {"type": "color-text"}
    if query.values:
        words = {value: {"text": text} for value, text in query.values.items()}
        properties["mappings"] = [{"type": "value", "options": words}]
    return [model.DynamicConfigValue(id_val=name, value=value) for name, value in properties.items()]


_KINDS = {
    Kind.STAT: _stat,
    Kind.LINES: _lines,
    Kind.STACK: _stack,
    Kind.HEAT: _heat,
    Kind.BARS: _bars,
    Kind.TABLE: _table,
    Kind.TIMELINE: _timeline,
    Kind.ALERTS: _alerts,
}
