"""Turn a dashboard into the form that Grafana asks questions about when a user imports it.

Data flow: a dashboard's JSON -> ``__inputs``, and ``${NAME}`` in the places of the answers -> export/*.json.

Source: Grafana "Export and import dashboards": the import replaces each ``${NAME}`` by the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from consumer.core.tools.alerts.model import RUNBOOK_URL

SOURCE_INPUT, RUNBOOK_INPUT = "DS_PROMETHEUS", "VAR_RUNBOOK"
PROMETHEUS = {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"}
GRAFANA = {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "12.0.0"}


def exported(text: str) -> str:
    """Return a dashboard's JSON with inputs: the data source, and the address of the runbook."""
    board: dict[str, Any] = json.loads(text)
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    variables["datasource"]["current"] = _chosen(SOURCE_INPUT)
    variables["runbook"].update(
        query=f"${{{RUNBOOK_INPUT}}}", current=_chosen(RUNBOOK_INPUT), options=[_chosen(RUNBOOK_INPUT)]
    )
    board["__inputs"] = [
        {
            "name": SOURCE_INPUT,
            "label": "Prometheus",
            "description": "The data source with the series of Leveret and RabbitMQ.",
            "type": "datasource",
            "pluginId": "prometheus",
            "pluginName": "Prometheus",
        },
        {
            "name": RUNBOOK_INPUT,
            "label": "Runbook",
            "description": "The address of the runbook: /runbook of any worker or of `leveret serve`.",
            "type": "constant",
            "value": RUNBOOK_URL,
        },
    ]
    board["__requires"] = [GRAFANA, PROMETHEUS, *_panel_plugins(board)]
    board["id"] = None
    return json.dumps(board, indent=2, sort_keys=True) + "\n"


def _chosen(name: str) -> dict[str, Any]:
    """Return the answer *name* as the chosen value of a variable."""
    return {"text": f"${{{name}}}", "value": f"${{{name}}}", "selected": True}


def _panel_plugins(board: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the kinds of panels that the dashboard needs, sorted."""
    panels = [each for panel in board["panels"] for each in (panel, *panel.get("panels", ()))]
    for kind in sorted({panel["type"] for panel in panels} - {"row"}):
        yield {"type": "panel", "id": kind, "name": kind, "version": ""}
