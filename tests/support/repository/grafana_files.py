"""The queries and the alerts in the Grafana files of the repository."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.data import ROOT

DASHBOARDS = tuple(sorted((ROOT / "grafana" / "dashboards").glob("*.json")))
EXPORTS = tuple(sorted((ROOT / "grafana" / "export").glob("*.json")))
ALERTS = ROOT / "grafana" / "alerts.yml"
ALERT_TESTS = tuple(ROOT / "grafana" / f"alerts{name}_test.yml" for name in ("", "_long"))


def read_board(path: Path) -> dict[str, Any]:
    """Return a dashboard."""
    board: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return board


def panels_of(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every panel of a dashboard, also those of collapsed rows, without the rows."""
    for panel in board["panels"]:
        yield from panel.get("panels", ()) if panel["type"] == "row" else (panel,)


def checked_in_panels(paths: Sequence[Path] = DASHBOARDS) -> list[dict[str, Any]]:
    """Return every panel of every dashboard."""
    return [panel for path in paths for panel in panels_of(read_board(path))]


def checked_in_queries(paths: Sequence[Path] = DASHBOARDS) -> list[tuple[str, str]]:
    """Return title and PromQL of each query in the dashboards' JSON."""
    panels = checked_in_panels(paths)
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


def alert_rules(alerts: Path = ALERTS) -> list[dict[str, Any]]:
    """Return the alert rules, without the recording rules."""
    groups = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def alert_names(alerts: Path = ALERTS) -> list[str]:
    """Return the names of the alert rules."""
    return [rule["alert"] for rule in alert_rules(alerts)]


def untested_alerts(names: Sequence[str], tests: Sequence[Path] = ALERT_TESTS) -> list[str]:
    """Return those of *names* that lack a case in which they fire or one in which they are silent."""
    cases = [case for path in tests for case in yaml.safe_load(path.read_text("utf-8"))["tests"]]
    looks = [look for case in cases for look in case["alert_rule_test"]]
    found = {(look["alertname"], bool(look["exp_alerts"])) for look in looks}
    return [name for name in names if not {(name, True), (name, False)} <= found]
