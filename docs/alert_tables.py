"""Write the tables of docs/operate.md on alerts, from the checked-in rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from consumer.core.tools.alerts.model import THRESHOLDS
from docs.markdown import one_line, table

RULES = Path(__file__).parents[1] / "grafana" / "alerts.yml"


def alerts_table() -> str:
    """Return every alert rule: its condition, severity and section of the runbook."""
    return table(("alert", "severity", "fires when", "for", "runbook"), map(_row, _rules("alert")))


def recordings_table() -> str:
    """Return every recording rule."""
    rows = [(f"`{rule['record']}`", f"`{one_line(rule['expr'])}`") for rule in _rules("record")]
    return table(("series", "expression"), rows)


def thresholds_table() -> str:
    """Return every threshold of the alerts."""
    rows = [(f"`{name}`", f"{each.default:.10g}", each.text) for name, each in THRESHOLDS.items()]
    return table(("threshold", "default", "meaning"), rows)


def _rules(kind: str) -> Iterator[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return (rule for group in groups for rule in group["rules"] if kind in rule)


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    section = rule["annotations"]["runbook_url"].partition("#")[2]
    link = f"[{section}](runbook.md#{section})"
    when = f"`{one_line(rule['expr'])}`"
    return f"`{rule['alert']}`", rule["labels"]["severity"], when, rule.get("for", "at once"), link
