"""Draw a dashboard as a page of HTML: Grafana's grid, with the answers of Prometheus in it.

Data flow: the dashboard's JSON -> one block for each row and panel, collapsed rows closed -> one page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from bench.previews.answers import Asker, column_of, joined
from bench.previews.graph import PALETTE, Frame, Mark, graph, timeline
from bench.previews.units import colour_of, word_of, written

WIDTH: Final = 1_600  #: CSS pixels
CELL_W: Final = WIDTH / 24
CELL_H: Final = 38  #: of Grafana's grid: 30, and 8 between two panels
HEAD: Final = 30  #: a panel's title
LEGEND_ROW: Final = 17
LEGEND_SHARE: Final = 0.38  #: at most this part of a panel is its legend
NAMES: Final[Mapping[str, str]] = {"rabbitmq_node": "node"}
LABEL: Final = "Preview, drawn from Prometheus' answers. Grafana shows the same values in its own look."
STYLE: Final = """
:root { --back: #f4f5f5; --panel: #fff; --line: #d9dbe0; --grid: #e7e9ed; --text: #24292e; --weak: #686b72; }
@media (prefers-color-scheme: dark) {
  :root { --back: #111217; --panel: #181b1f; --line: #2c2f36; --grid: #26292f; }
  :root { --text: #d5d7dc; --weak: #8e929b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 12px/1.3 "DejaVu Sans", sans-serif; }
header { padding: 10px 14px; border-bottom: 1px solid var(--line); font-size: 17px; }
header small { float: right; font-size: 12px; color: var(--weak); padding-top: 4px; }
main { position: relative; }
.row { position: absolute; left: 10px; font-size: 14px; font-weight: bold; padding-top: 9px; }
.panel { position: absolute; background: var(--panel); border: 1px solid var(--line); overflow: hidden; }
.panel h2 { font-size: 12px; margin: 0; padding: 7px 9px; height: 30px; white-space: nowrap; }
.number { text-align: center; font-size: 27px; padding-top: 22px; }
table { width: 100%; border-collapse: collapse; }
td, th { text-align: left; padding: 4px 9px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--weak); font-weight: normal; }
.legend td, .legend th { padding: 1px 9px; border: 0; height: 17px; }
.legend td + td, .legend th + th { text-align: right; width: 90px; }
i { display: inline-block; width: 12px; height: 4px; margin-right: 6px; vertical-align: middle; }
svg { display: block; font: 10.5px "DejaVu Sans", sans-serif; }
svg text { fill: var(--text); } svg .weak { fill: var(--weak); } .weak { color: var(--weak); }
.grid { stroke: var(--grid); } .limit { stroke-dasharray: 6 5; }
.green { color: #299c46; fill: #56a64b; stroke: #299c46; }
.yellow { color: #b98a00; fill: #e0b400; stroke: #e0b400; }
.red { color: #d9333f; fill: #e02f44; stroke: #e02f44; }
svg rect { stroke: none; }
.bar { height: 18px; background: currentColor; opacity: .75; display: inline-block; }
"""


@dataclass(frozen=True, slots=True)
class Drawer:
    """Draws the panels of a dashboard from the answers for one time."""

    asker: Asker
    marks: Sequence[Mark]
    alerts: Sequence[Mapping[str, Any]]  #: active alerts of Prometheus, the newest first

    def page(self, board: Mapping[str, Any]) -> str:
        """Return the whole page."""
        blocks: list[str] = []
        shift = bottom = 0.0
        for panel in board["panels"]:
            top = panel["gridPos"]["y"] - shift
            if panel["type"] == "row":
                sign = "▸" if panel["panels"] else "▾"
                blocks.append(
                    f'<div class="row" style="top:{top * CELL_H}px">{sign} {escape(panel["title"])}</div>'
                )
                bottom = max(bottom, top + 1)
                nested = [each["gridPos"]["y"] + each["gridPos"]["h"] for each in panel["panels"]]
                shift += max(nested) - panel["gridPos"]["y"] - 1 if nested else 0
                continue
            blocks.append(self._block(panel, top))
            bottom = max(bottom, top + panel["gridPos"]["h"])
        head = f"<header>{escape(board['title'])}<small>{LABEL}</small></header>"
        main = f'<main style="height:{bottom * CELL_H + 8}px">{"".join(blocks)}</main>'
        return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{head}{main}"

    def _block(self, panel: Mapping[str, Any], top: float) -> str:
        at = panel["gridPos"]
        left, width, height = at["x"] * CELL_W + 4, at["w"] * CELL_W - 8, at["h"] * CELL_H - 8
        inner = _INNER[panel["type"]](self, panel, width - 10, height - HEAD - 4)
        style = f"left:{left:.0f}px;top:{top * CELL_H:.0f}px;width:{width:.0f}px;height:{height:.0f}px"
        return f'<div class="panel" style="{style}"><h2>{escape(panel["title"])}</h2>{inner}</div>'

    def stat(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw one number."""
        defaults = panel["fieldConfig"]["defaults"]
        found = self.asker.values(panel["targets"][0])
        if not found:
            return f'<div class="number weak">{defaults.get("noValue", "")}</div>'
        value = found[0].last
        text = word_of(value, defaults.get("mappings", ())) or written(value, defaults["unit"])
        return f'<div class="number {colour_of(value, defaults.get("thresholds"))}">{text}</div>'

    def lines(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw lines over a table of them with their last and greatest values."""
        lines = self.asker.lines(panel)
        unit = panel["fieldConfig"]["defaults"]["unit"]
        room = int(height * LEGEND_SHARE / LEGEND_ROW)
        shown = sorted(enumerate(lines), key=lambda each: -each[1].last)[: max(1, room - 1)]
        rows = "".join(
            f'<tr><td><i style="background:{PALETTE[number % len(PALETTE)]}"></i>{escape(line.name)}</td>'
            f"<td>{written(line.last, unit)}</td><td>{written(line.greatest, unit)}</td></tr>"
            for number, line in shown
        )
        legend = f'<table class="legend"><tr><th>Name</th><th>Last</th><th>Max</th></tr>{rows}</table>'
        left = height - LEGEND_ROW * (len(shown) + 1)
        return graph(panel, lines, self._frame(width, left), self.marks) + legend

    def timeline(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw a bar of time for each name."""
        return timeline(panel, self.asker.lines(panel), self._frame(width, height))

    def _frame(self, width: float, height: float) -> Frame:
        return Frame(width=width, height=height, start=self.asker.start, end=self.asker.end)

    def bars(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw a bar for each value."""
        defaults = panel["fieldConfig"]["defaults"]
        lines = [line for target in panel["targets"] for line in self.asker.values(target)]
        top = max([1e-9, *(line.last for line in lines)])
        rows = "".join(
            f"<tr><td>{escape(line.name)}</td>"
            f'<td class="{colour_of(line.last, defaults.get("thresholds"))}"><span class="bar" '
            f'style="width:{max(1, 0.4 * width * line.last / top):.0f}px"></span> '
            f"{written(line.last, defaults['unit'])}</td></tr>"
            for line in lines
        )
        return f"<table>{rows}</table>"

    def table(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw the joined values, a column for each query."""
        hidden = panel["transformations"][1]["options"]["excludeByName"]
        frames = [self.asker.values(target) for target in panel["targets"]]
        names, rows = joined(frames)
        names = [name for name in names if name not in hidden]
        columns = {
            number: column_of(panel, target["refId"])
            for number, target in enumerate(panel["targets"])
            if f"Value #{target['refId']}" not in hidden
        }
        if sort := panel["options"].get("sortBy"):
            [by] = [n for n, column in columns.items() if column["displayName"] == sort[0]["displayName"]]
            rows.sort(key=lambda row: -row[1].get(by, float("-inf")))
        titles = [*(NAMES.get(name, name) for name in names), *(c["displayName"] for c in columns.values())]
        head = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(labels.get(name, ''))}</td>" for name in names)
            + "".join(_cell(values.get(number), column) for number, column in columns.items())
            + "</tr>"
            for labels, values in rows
        )
        return f"<table><tr>{head}</tr>{body}</table>"

    def alert_list(self, panel: Mapping[str, Any], width: float, height: float) -> str:
        """Draw the alerts that fire or soon will."""
        colours = {"firing": "red", "pending": "yellow"}
        rows = "".join(
            f'<tr><td class="{colours[alert["state"]]}">{alert["state"]}</td>'
            f"<td>{escape(alert['labels']['alertname'])}<br>"
            f'<span class="weak">{escape(_whom(alert["labels"]))}</span></td></tr>'
            for alert in self.alerts
        )
        return f"<table>{rows}</table>"


def _whom(labels: Mapping[str, str]) -> str:
    left = {"alertname", "severity", "job"}
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name not in left)


def _cell(value: float | None, column: Mapping[str, Any]) -> str:
    if value is None:
        return '<td class="weak">-</td>'
    text = word_of(value, column.get("mappings", ())) or written(value, column["unit"])
    return f'<td class="{colour_of(value, column.get("thresholds"))}">{text}</td>'


_INNER = {
    "stat": Drawer.stat,
    "timeseries": Drawer.lines,
    "state-timeline": Drawer.timeline,
    "bargauge": Drawer.bars,
    "table": Drawer.table,
    "alertlist": Drawer.alert_list,
}
