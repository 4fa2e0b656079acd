"""Define a case of an alert rule, and write cases as promtool reads them.

Data flow: cases_*.py + AlertOptions -> document of `promtool test rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from consumer.core.tools.alerts.model import Alert, AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import fill_text

RULES: Final[Mapping[str, Alert]] = {
    rule.name: rule for group in GROUPS for rule in group.rules if isinstance(rule, Alert)
}
STEP: Final = "15s"  #: between two samples of a case
EVALUATION: Final = "30s"  #: between two evaluations of the rules; each takes promtool's time
LONG_STEP: Final = "5m"  #: of a case that lasts for hours, for both
CLUSTER: Final = "eu"  #: value of a further label by which alerts are grouped


class Of(Enum):
    """The labels of an alert besides its own: those that its expression keeps."""

    GROUP = "group"  #: the labels by which alerts are grouped
    WORKER = "worker"  #: every label of the series of worker 1
    ONE_WORKER = "one worker"  #: group and instance
    BROKER = "broker"  #: every label of the series of the broker
    BROKERS = "brokers"  #: the labels by which alerts are grouped, of the broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Samples, and whether the alert fires on them.

    In a series ``@`` means the labels of worker 1, ``@2`` those of worker 2, ``%`` those of the broker.
    """

    alert: str
    note: str = ""  #: the difference from other cases of the same alert
    series: Mapping[str, str]  #: selector -> values, as promtool reads them
    at: tuple[str, ...]  #: times at which the alert is looked for, since the first sample
    text: tuple[str, ...] = ()  #: the description at each time; empty: the alert is silent
    of: Of = Of.GROUP
    labels: Mapping[str, str] = field(default_factory=dict)  #: further labels of the alert
    long: bool = False  #: whether a sample follows every :data:`LONG_STEP`
    away: bool = False  #: whether the broker has named its cluster in the first sample alone


def fires(alert: str, series: Mapping[str, str], at: str, text: str, **more: Any) -> Case:
    """Return a case in which the alert fires once, with the description *text*."""
    return Case(alert=alert, series=series, at=(at,), text=(text,), **more)


def silent(alert: str, series: Mapping[str, str], *at: str, **more: Any) -> Case:
    """Return a case in which the alert is silent at each time."""
    return Case(alert=alert, series=series, at=at, **more)


def cases_document(
    cases: Iterable[Case], options: AlertOptions, rules: str, *, long: bool = False
) -> dict[str, Any]:
    """Return the cases as promtool reads them.

    Args:
        cases: All cases; those of the other step are left out.
        options: The options of the rules; their names are in the samples.
        rules: Path of the file of rules, from the file of cases.
        long: Choose the cases that last for hours.
    """
    step = LONG_STEP if long else STEP
    tests = [_test(case, options, step) for case in cases if case.long == long]
    evaluation = LONG_STEP if long else EVALUATION
    return {"rule_files": [rules], "evaluation_interval": evaluation, "tests": tests}


def _test(case: Case, options: AlertOptions, step: str) -> dict[str, Any]:
    what = "fires" if case.text else "is silent"
    series = [{"series": _named(name, options), "values": v} for name, v in case.series.items()]
    if options.rabbitmq_cluster and any("{%" in name for name in case.series):
        cluster = f'rabbitmq_identity_info{{%,rabbitmq_cluster="{options.rabbitmq_cluster}"}}'
        series.append({"series": _named(cluster, options), "values": "1 stale" if case.away else "1x1500"})
    looks = [_look(case, number, options) for number in range(len(case.at))]
    name = f"{case.alert} {what} {case.note}".rstrip()
    return {"name": name, "interval": step, "input_series": series, "alert_rule_test": looks}


def _look(case: Case, number: int, options: AlertOptions) -> dict[str, Any]:
    expected: list[dict[str, Any]] = []
    rule = RULES[case.alert]
    if case.text:
        labels = {"severity": rule.severity.value, **options.labels, **_kept(case.of, options), **case.labels}
        notes = {
            "summary": fill_text(rule.summary, options),
            "description": case.text[number],
            "runbook_url": f"{options.runbook_url}#{rule.section}",
        }
        expected.append({"exp_labels": labels, "exp_annotations": notes})
    return {"eval_time": case.at[number], "alertname": case.alert, "exp_alerts": expected}


def _every(job: str, instance: str, options: AlertOptions) -> dict[str, str]:
    further = {name: CLUSTER for name in options.by if name != "job"}
    return {"job": job, "instance": instance, **further}


def _named(series: str, options: AlertOptions) -> str:
    """Fill the labels of the marks in."""
    marks = {
        "@2": _every(options.job, "w2:8080", options),
        "@": _every(options.job, "w1:8080", options),
        "%": _every(options.rabbitmq_job, "rabbitmq:15692", options),
    }
    for mark, labels in marks.items():
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        series = series.replace("{" + mark, "{" + text)
    return series


def _kept(of: Of, options: AlertOptions) -> dict[str, str]:
    broker = of in (Of.BROKER, Of.BROKERS)
    instance = "rabbitmq:15692" if broker else "w1:8080"
    labels = _every(options.rabbitmq_job if broker else options.job, instance, options)
    if of in (Of.GROUP, Of.BROKERS):
        return {name: labels[name] for name in options.by}
    return labels
