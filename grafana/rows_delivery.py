"""The dashboard's upper rows: the present state, throughput, attempts and retries.

Gauges that every worker reads from the broker are joined with ``max``: the sum would count a queue twice.
"""

from __future__ import annotations

from grafana.promql import RATE, over_range, quantile, rate, ratio
from grafana.spec import Kind, PanelSpec, Query, RowSpec

NOW = RowSpec(
    "Now",
    (
        PanelSpec(
            title="Ready",
            text="Share of the workers that are ready. /readyz names the missing part.",
            queries=(Query("sum(leveret_ready{@}) / count(leveret_ready{@})"),),
            kind=Kind.STAT,
            unit="percentunit",
            width=3,
            height=4,
            warn=1.0,
            bad=0.5,
            runbook="nothing-is-sent-readyz-is-red",
        ),
        PanelSpec(
            title="Back-pressure",
            text="Workers that start nothing new because the broker is slow, blocked or away.",
            queries=(Query("sum(leveret_pressed{@})"),),
            kind=Kind.STAT,
            width=3,
            height=4,
            bad=1,
            values={"0": "none"},
            runbook="nothing-is-sent-readyz-is-red",
        ),
        PanelSpec(
            title="Stuck queues",
            text="Queues that confirm no publish. Only deliveries that need one of them wait.",
            queries=(Query("max(leveret_stuck_queues{@})"),),
            kind=Kind.STAT,
            width=3,
            height=4,
            bad=1,
            values={"0": "none"},
            runbook="a-queue-confirms-nothing",
        ),
        PanelSpec(
            title="Delivered",
            text="Webhooks that endpoints accepted, per second.",
            queries=(Query(rate("leveret_deliveries_total", ',verdict="delivered"')),),
            kind=Kind.STAT,
            unit="reqps",
            width=3,
            height=4,
        ),
        PanelSpec(
            title="Requests that succeed",
            text="Share of all HTTP requests answered with 2xx. Under 90 % an alert fires.",
            queries=(ratio(rate("leveret_attempts_total", ',kind="ok"'), rate("leveret_attempts_total")),),
            kind=Kind.STAT,
            unit="percentunit",
            width=3,
            height=4,
            warn=0.98,
            bad=0.9,
            runbook="many-requests-fail",
        ),
        PanelSpec(
            title="In flight",
            text="HTTP requests that wait for their answer.",
            queries=(Query("sum(leveret_requests_in_flight{@})"),),
            kind=Kind.STAT,
            width=3,
            height=4,
        ),
        PanelSpec(
            title="Waiting",
            text="Deliveries that wait for their next attempt, in the queues of the ladder.",
            queries=(Query('max(leveret_queue_messages{@,queue="wait"})'),),
            kind=Kind.STAT,
            width=3,
            height=4,
        ),
        PanelSpec(
            title="Parked",
            text="Entries that wait for an operator. Over 100 an alert fires.",
            queries=(Query('max(leveret_queue_messages{@,queue="parked"})'),),
            kind=Kind.STAT,
            width=3,
            height=4,
            warn=1,
            bad=100,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Open breakers",
            text="Endpoints that get no requests because they failed several times in a row.",
            queries=(Query('max(leveret_breakers{@,state="open"})'),),
            kind=Kind.STAT,
            width=3,
            height=4,
            warn=1,
            runbook="one-endpoint-is-down",
        ),
    ),
)

THROUGHPUT = RowSpec(
    "Throughput",
    (
        PanelSpec(
            title="Events",
            text="Events taken from the lanes, by outcome. unmatched: no subscription wants the event.",
            queries=(Query(rate("leveret_events_total", by="outcome"), "{{outcome}}"),),
            unit="eps",
        ),
        PanelSpec(
            title="Deliveries that ended",
            text="Deliveries by their end. cancelled: the subscription was deleted. archived: too old.",
            queries=(Query(rate("leveret_deliveries_total", by="verdict"), "{{verdict}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
        PanelSpec(
            title="Deliveries that succeed",
            text="Share of the ended deliveries that an endpoint accepted; the others were parked.",
            queries=(
                ratio(
                    rate("leveret_deliveries_total", ',verdict="delivered"'),
                    rate("leveret_deliveries_total", ',verdict=~"delivered|parked"'),
                    "delivered",
                ),
            ),
            unit="percentunit",
            warn=0.99,
            bad=0.98,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="From event to delivery",
            text="Time from an event's arrival to its delivery, retries included.",
            queries=tuple(quantile(share, "leveret_delivery_seconds") for share in (0.5, 0.95, 0.99)),
            unit="s",
            warn=60,
            bad=300,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Oldest delivery",
            text="Age of the oldest event in flight, or that failed or was deferred in the last minute.",
            queries=(Query("max by (instance) (leveret_oldest_delivery_seconds{@})", "{{instance}}"),),
            unit="s",
            warn=60,
            bad=300,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="One request",
            text="Wall time of single HTTP requests, failed ones included.",
            queries=tuple(quantile(share, "leveret_attempt_duration_seconds") for share in (0.5, 0.95, 0.99)),
            unit="s",
        ),
        PanelSpec(
            title="Queues",
            text="Ready messages on the broker, by kind of queue. lane: fresh events; wait: retries.",
            queries=(Query("max by (queue) (leveret_queue_messages{@})", "{{queue}}"),),
            runbook="the-brokers-memory-or-disk-is-near-its-limit",
        ),
    ),
)

ATTEMPTS = RowSpec(
    "Attempts and retries",
    (
        PanelSpec(
            title="Attempts by number",
            text="HTTP requests by the number of the attempt. All but 1 are retries.",
            queries=(Query(rate("leveret_attempts_by_number_total", by="attempt"), "attempt {{attempt}}"),),
            kind=Kind.STACK,
            unit="reqps",
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
            title="Failures by code",
            text="Failed requests by HTTP status, or by the kind of error if no status came.",
            queries=(Query(rate("leveret_failures_total", by="code"), "{{code}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook="many-requests-fail",
        ),
        PanelSpec(
            title="Planned waits",
            text="Waits of the retries planned just now, with backoff, jitter and Retry-After.",
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
)
