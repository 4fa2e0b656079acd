"""Attempts and retries: questions of an expert on the waits between attempts."""

from __future__ import annotations

from grafana.promql import RATE, over_range, quantile, rate, ratio
from grafana.spec import Kind, PanelSpec, Query, RowSpec

ATTEMPTS = RowSpec(
    "Attempts and retries",
    (
        PanelSpec(
            title="Attempts by number",
            text="HTTP requests by the number of the attempt, 1 for the first. All others are retries.",
            queries=(Query(rate("leveret_attempts_by_number_total", by="attempt"), "attempt {{attempt}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
        PanelSpec(
            title="One request",
            text="Wall time of single HTTP requests, failed ones included. p95: 95 of 100 took less.",
            queries=tuple(quantile(share, "leveret_attempt_duration_seconds") for share in (0.5, 0.95, 0.99)),
            unit="s",
            warn=5,
            bad=15,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Success rate by attempt",
            text="Share of the requests of each attempt number that succeeded, over the chosen time.",
            queries=(
                ratio(
                    over_range("leveret_attempts_by_number_total", "attempt", ',result="delivered"'),
                    f"({over_range('leveret_attempts_by_number_total', 'attempt')} > 0)",
                    "attempt {{attempt}}",
                ),
            ),
            kind=Kind.BARS,
            unit="percentunit",
            warn=0.95,
            bad=0.5,
            runbook="many-requests-fail",
        ),
        PanelSpec(
            title="Planned waits",
            text="Waits of the retries planned just now: they grow with each attempt (backoff), are spread "
            "at random (jitter), and follow an endpoint's own wish (the header Retry-After).",
            queries=(
                Query(f"sum by (le) (increase(leveret_retry_wait_seconds_bucket{{@}}{RATE}))", "{{le}}"),
            ),
            kind=Kind.HEAT,
            unit="s",
        ),
        PanelSpec(
            title="Time between attempts",
            text="Measured time between two attempts, beside the mean planned wait.",
            queries=(
                ratio(
                    rate("leveret_attempt_gap_seconds_sum"), rate("leveret_attempt_gap_seconds_count"), "mean"
                ),
                ratio(
                    rate("leveret_retry_wait_seconds_sum"),
                    rate("leveret_retry_wait_seconds_count"),
                    "planned",
                ),
            ),
            unit="s",
        ),
        PanelSpec(
            title="Retries planned",
            text="Retries by the number of the attempt that failed.",
            queries=(Query(rate("leveret_retries_total", by="attempt"), "after {{attempt}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
        PanelSpec(
            title="Retries by kind of error",
            text="Retries by the kind of the failed attempt's result. Five times the usual rate is an alert.",
            queries=(Query(rate("leveret_retries_by_kind_total", by="kind"), "{{kind}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook="unusual-retries",
        ),
    ),
    collapsed=True,
)
