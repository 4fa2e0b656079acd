"""Fill in the templates of the rules, and write the file for Prometheus.

Data flow: GROUPS + AlertOptions -> (fill) -> the document of Prometheus -> YAML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import yaml

from consumer.core.errors import ConfigError
from consumer.core.text.durations import format_duration
from consumer.core.tools.alerts.model import Alert, AlertOptions, Group, Record

Document: TypeAlias = dict[str, Any]

_THRESHOLD: Final = re.compile(r"<(\w+)([%~]?)>")
_OF_BROKER: Final = re.compile(r"(\w+)\{%\}")
_RANGE: Final = re.compile(r"(?<=\[)[\dsmhd:]+(?=\])|(?<=offset )\d+[smhd]")
_DURATION: Final = re.compile(r"(\d+)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PATTERN: Final = re.compile(r"[.*+?()\[\]|^$]")  #: characters by which a job name is a regular expression


def rules_document(groups: Sequence[Group], options: AlertOptions) -> Document:
    """Return the rules as Prometheus reads them.

    Raises:
        ConfigError: *options* leaves out an alert that does not exist.
    """
    names = {rule.name for group in groups for rule in group.rules if isinstance(rule, Alert)}
    unknown = sorted(options.without - names)
    if unknown:
        raise ConfigError(f"--without {unknown[0]}: there is no such alert")
    return {"groups": [made for group in groups if (made := _group(group, options))["rules"]]}


def rules_text(groups: Sequence[Group], options: AlertOptions) -> str:
    """Return the document as YAML."""
    document = rules_document(groups, options)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _group(group: Group, options: AlertOptions) -> Document:
    made: Document = {"name": group.name}
    if group.interval:
        made["interval"] = _scaled(group.interval, options.time_factor)
    rules = (rule for rule in group.rules if _is_wanted(rule, options))
    made["rules"] = [_rule(rule, options) for rule in rules]
    return made


def _is_wanted(rule: Alert | Record, options: AlertOptions) -> bool:
    return rule.name not in options.without and ("{%}" not in rule.expr or bool(options.rabbitmq_job))


def _rule(rule: Alert | Record, options: AlertOptions) -> Document:
    expr = fill_expr(rule.expr, options)
    if isinstance(rule, Record):
        return {"record": rule.name, "expr": expr}
    made: Document = {"alert": rule.name, "expr": expr}
    if rule.hold:
        made["for"] = _scaled(rule.hold, options.time_factor)
    made["labels"] = {"severity": rule.severity.value, **options.labels}
    made["annotations"] = {
        "summary": fill_text(rule.summary, options),
        "description": fill_text(rule.description, options),
        "runbook_url": f"{options.runbook_url}#{rule.section}",
    }
    return made


def fill_expr(expr: str, options: AlertOptions) -> str:
    """Return a PromQL template with selectors, labels, thresholds and durations filled in."""
    expr = fill_text(expr, options).replace("(@", "(" + ", ".join(options.by))
    expr = _RANGE.sub(lambda found: _scaled(found[0], options.time_factor), expr)
    return _OF_BROKER.sub(lambda found: _of_broker(found[1], options), expr)


def fill_text(text: str, options: AlertOptions) -> str:
    """Return a text with its thresholds, and with the selectors of the queries in it, filled in."""

    def filled(found: re.Match[str]) -> str:
        value = options.threshold(found[1])
        if found[2] == "%":
            return f"{100 * value:.10g} %"
        return format_duration(round(value)) if found[2] == "~" else f"{value:.10g}"

    own = _selector("job", options.job)
    return _THRESHOLD.sub(filled, text.replace("{@", "{" + own))


def _of_broker(name: str, options: AlertOptions) -> str:
    """Return the series *name* of our nodes.

    RabbitMQ exposes the cluster of a node as a label of ``rabbitmq_identity_info`` alone. A node that is away
    has no such series now, so the one of the last day counts, whatever the time factor: an alert on a longer
    outage ends after that day.
    """
    job = _selector("job", options.rabbitmq_job)
    if not options.rabbitmq_cluster:
        return f"{name}{{{job}}}"
    cluster = _selector("rabbitmq_cluster", options.rabbitmq_cluster, literal=True)
    ours = f"last_over_time(rabbitmq_identity_info{{{job},{cluster}}}[1d])"
    return f"({name}{{{job}}} and on (job, instance) {ours})"


def _selector(label: str, value: str, *, literal: bool = False) -> str:
    matches = "=" if literal or not _PATTERN.search(value) else "=~"
    return f'{label}{matches}"{value}"'


def _scaled(durations: str, factor: float) -> str:
    """Multiply each duration in *durations*, such as ``10m`` or ``10m:30s``; at least one second each."""
    if factor == 1:
        return durations

    def scaled(found: re.Match[str]) -> str:
        return f"{max(1, round(int(found[1]) * _SECONDS[found[2]] * factor))}s"

    return _DURATION.sub(scaled, durations)
