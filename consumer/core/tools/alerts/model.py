"""Define an alert rule, a recording rule, and the options of both.

A rule is a template. ``NAME{@}`` selects series of our workers, ``NAME{%}`` those of our RabbitMQ, ``by (@)``
means the labels by which alerts are grouped, and ``<name>`` one of :data:`THRESHOLDS` (``<name%>`` as a
percentage, ``<name~>`` as a duration). ``template.py`` fills them in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isfinite
from types import MappingProxyType
from typing import Final

from consumer.core.errors import ConfigError

RUNBOOK_URL: Final = "http://127.0.0.1:8080/runbook"
"""The page of the daemon with the default ``LEVERET_LISTEN``; the port of docker-compose.yml too."""

DELIVERY_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
"""Upper bounds of the buckets of ``leveret_delivery_seconds``, in seconds; a test compares the two."""

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MISFIT: Final = re.compile(r'["\\\n]')


class Severity(StrEnum):
    """How soon an operator has to act."""

    CRITICAL = "critical"  #: now: nothing is delivered, or it soon will not be
    WARNING = "warning"  #: in working hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert rule, as a template."""

    name: str
    expr: str
    hold: str = ""  #: how long the condition has to last, such as ``5m``; empty: fires at once
    severity: Severity = Severity.WARNING
    summary: str
    description: str  #: with Prometheus' own templates, such as ``{{ $value }}``
    section: str  #: anchor in docs/runbook.md


@dataclass(frozen=True, slots=True)
class Record:
    """One recording rule, as a template: an expression that several rules or panels read."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that Prometheus evaluates together, in order."""

    name: str
    rules: tuple[Alert | Record, ...]
    interval: str = ""  #: time between evaluations; empty: Prometheus' own


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that users may change."""

    default: float
    text: str  #: its meaning, with the unit


THRESHOLDS: Final[Mapping[str, Threshold]] = MappingProxyType(
    {
        "failure_share": Threshold(0.1, "share of the HTTP requests that fail"),
        "failures": Threshold(10, "failed requests in 5 minutes; fewer raise no alert on the share"),
        "delivery_s": Threshold(300, "seconds from the event to its delivery; a bucket of the histogram"),
        "retries": Threshold(50, "retries of one kind in 10 minutes; fewer are never unusual"),
        "retries_factor": Threshold(5, "times the usual rate of retries of one kind"),
        "retries_share": Threshold(0.05, "share of all requests; retries below it are never unusual"),
        "parked": Threshold(100, "parked entries"),
        "parked_share": Threshold(0.02, "share of the ended deliveries that are parked"),
        "parked_new": Threshold(10, "entries parked in 10 minutes; fewer raise no alert on the share"),
        "tenant_parked": Threshold(50, "parked entries of one tenant"),
        "trouble_share": Threshold(0.8, "share of a subscription's last work that failed or was held"),
        "trouble": Threshold(10, "deliveries of it that wait or failed; fewer matter if its breaker is open"),
        "latency_s": Threshold(2, "seconds, 95th percentile of the requests to one subscription"),
        "slow_requests": Threshold(20, "requests of a worker to it in 1 h; fewer have no 95th percentile"),
        "disabled": Threshold(0, "subscriptions that Leveret disabled by itself"),
        "breaker_open_s": Threshold(3600, "seconds since which the same breaker has been open"),
        "lane_messages": Threshold(1000, "fresh messages in the lanes; fewer may grow unnoticed"),
        "unmatched_share": Threshold(0.5, "share of the events that match no subscription"),
        "unmatched": Threshold(20, "unmatched events in 15 minutes; fewer raise no alert on the share"),
        "starved_s": Threshold(120, "seconds without a job for a tenant whose messages wait"),
        "slo": Threshold(0.99, "share of the deliveries that shall be made within delivery_s"),
        "slo_missed": Threshold(20, "deliveries in 1 h that missed the objective; fewer raise no alert"),
        "burn_fast": Threshold(14.4, "times the rate at which the error budget lasts for 30 days, over 1 h"),
        "burn_slow": Threshold(6, "times the rate at which the error budget lasts for 30 days, over 6 h"),
        "certificate_s": Threshold(14 * 86400, "seconds until a certificate expires"),
        "secret_s": Threshold(2 * 3600, "seconds until a replaced secret ends"),
        "waiting_share": Threshold(0.8, "share of [limits] waiting_bytes"),
        "memory_share": Threshold(0.8, "share of the broker's memory limit: warning"),
        "memory_full_share": Threshold(0.9, "share of the broker's memory limit: critical"),
        "disk_factor": Threshold(1.5, "times the broker's limit of free disk"),
        "handles_share": Threshold(0.9, "share of the broker's file handles"),
        "dead_letters": Threshold(32, "messages on their way to a dead-letter queue for 10 minutes"),
    }
)
"""Every threshold by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOptions:
    """The names and thresholds of one installation.

    Raises:
        ConfigError: a name, label, threshold or address is not usable.
    """

    job: str = "leveret"  #: scrape job of the workers; a regular expression too
    rabbitmq_job: str = "rabbitmq"  #: scrape job of the broker; empty: no rule on the broker's own series
    rabbitmq_cluster: str = ""  #: name of our cluster, if the job scrapes several; empty: the whole job
    by: tuple[str, ...] = ("job",)  #: labels by which installations differ
    labels: Mapping[str, str] = field(default_factory=lambda: {"service": "leveret"})  #: of every alert
    runbook_url: str = RUNBOOK_URL  #: page to which the anchor of a section is added
    thresholds: Mapping[str, float] = field(default_factory=dict)  #: changed ones by name
    without: frozenset[str] = frozenset()  #: names of alerts that are left out
    time_factor: float = 1.0  #: of every duration in the rules; below 1 for trials

    def __post_init__(self) -> None:
        """Check every value."""
        for option, value in (("--job", self.job), ("--rabbitmq-job", self.rabbitmq_job)):
            _check_text(option, value)
        _check_text("--rabbitmq-cluster", self.rabbitmq_cluster)
        if not self.job:
            raise ConfigError("--job: give the name of the scrape job of the workers, such as leveret")
        if not self.by:
            raise ConfigError("--by: give at least one label, such as job")
        for name in (*self.by, *self.labels):
            if not _LABEL.fullmatch(name):
                raise ConfigError(f"{name!r} is not a valid label name; use letters, digits and _")
        for name, value in self.labels.items():
            _check_text(f"--label {name}", value)
        self._check_thresholds()
        if not self.runbook_url.startswith(("http://", "https://")):
            raise ConfigError("--runbook-url: give an address that begins with http:// or https://")
        if not 0 < self.time_factor < inf:
            raise ConfigError("--time-factor: give a finite number above 0")

    def _check_thresholds(self) -> None:
        unknown = sorted(set(self.thresholds) - set(THRESHOLDS))
        if unknown:
            raise ConfigError(f"--threshold {unknown[0]}: unknown; the names are {', '.join(THRESHOLDS)}")
        for name, value in self.thresholds.items():
            if not isfinite(value):
                raise ConfigError(f"--threshold {name}: give a finite number")
        if self.threshold("delivery_s") not in DELIVERY_BOUNDS_S:
            bounds = ", ".join(f"{bound:g}" for bound in DELIVERY_BOUNDS_S)
            raise ConfigError(f"--threshold delivery_s: give the bound of a bucket: {bounds}")

    def threshold(self, name: str) -> float:
        """Return a threshold of :data:`THRESHOLDS`, as it was changed."""
        return self.thresholds.get(name, THRESHOLDS[name].default)


def _check_text(option: str, value: str) -> None:
    if _MISFIT.search(value):
        raise ConfigError(f"{option}: a name has no quotation mark, backslash or line feed")
