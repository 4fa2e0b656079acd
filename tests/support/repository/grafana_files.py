"""The queries and the alerts in the Grafana files of the repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.data import ROOT

DASHBOARD = ROOT / "grafana" / "dashboards" / "leveret.json"
ALERTS = ROOT / "grafana" / "alerts.yml"
ALERT_TESTS = tuple(ROOT / "grafana" / f"alerts{name}_test.yml" for name in ("", "_long"))


def checked_in_queries(path: Path = DASHBOARD) -> list[tuple[str, str]]:
    """Return title and PromQL of each query in the dashboard's JSON."""
    panels = json.loads(path.read_text("utf-8"))["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


def alert_rules(alerts: Path = ALERTS) -> list[dict[str, Any]]:
    """Return the alert rules, without the recording rules."""
    groups = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def alert_names(alerts: Path = ALERTS) -> list[str]:
    """Return the names of the alert rules."""
    return [rule["alert"] for rule in alert_rules(alerts)]


def untested_alerts(alerts: Path = ALERTS, tests: Sequence[Path] = ALERT_TESTS) -> list[str]:
    """Return the alerts that lack a case in which they fire or one in which they are silent."""
    cases = [case for path in tests for case in yaml.safe_load(path.read_text("utf-8"))["tests"]]
    looks = [look for case in cases for look in case["alert_rule_test"]]
    found = {(look["alertname"], bool(look["exp_alerts"])) for look in looks}
    return [name for name in alert_names(alerts) if not {(name, True), (name, False)} <= found]
