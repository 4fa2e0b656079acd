"""What the dashboard shows, row by row. ``@`` in a selector stands for the chosen jobs and instances.

Gauges that every worker reads from the broker are joined with ``max``: the sum would count a queue twice.
"""

from __future__ import annotations

from grafana.spec import Kind, PanelSpec, Query, RowSpec

RATE = "[$__rate_interval]"


def rate(name: str, more: str = "", by: str = "") -> str:
    """Return the summed rate of a counter over all workers."""
    over = f" by ({by})" if by else ""
    return f"sum{over} (rate({name}{{@{more}}}{RATE}))"


def over_range(name: str, by: str, more: str = "") -> str:
    """Return by how much a counter grew over the time that the dashboard shows."""
    return f"sum by ({by}) (increase({name}{{@{more}}}[$__range]))"


def quantile(share: float, name: str) -> Query:
    """Return a quantile of a histogram, all labels together."""
    inner = f"sum by (le) (rate({name}_bucket{{@}}{RATE}))"
    return Query(f"histogram_quantile({share}, {inner})", f"p{share * 100:g}")


def ratio(part: str, whole: str, legend: str = "") -> Query:
    """Return *part* by *whole*."""
    return Query(f"{part} / {whole}", legend)


NOW = RowSpec(
    "Now",
    (
        PanelSpec(
            title="Ready",
            text="Workers that are ready, of those that answer. /readyz says what is missing.",
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
            title="Delivered",
            text="Webhooks that endpoints took, per second.",
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
            text="HTTP requests that wait for their answer now.",
            queries=(Query("sum(leveret_requests_in_flight{@})"),),
            kind=Kind.STAT,
            width=3,
            height=4,
        ),
        PanelSpec(
            title="Waiting",
            text="Deliveries that wait for their next attempt, in the queues of the delay ladder.",
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
            text="Endpoints that are left alone for now because they failed again and again.",
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
            text="Events taken from the lanes, by what became of them. unrouted: nobody subscribed to it.",
            queries=(Query(rate("leveret_events_total", by="outcome"), "{{outcome}}"),),
            unit="eps",
        ),
        PanelSpec(
            title="Deliveries that ended",
            text="How deliveries ended. cancelled: its subscription was deleted. archived: parked too long.",
            queries=(Query(rate("leveret_deliveries_total", by="verdict"), "{{verdict}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
        PanelSpec(
            title="Deliveries that succeed",
            text="Share of the deliveries that ended by being taken; the rest was parked.",
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
            text="From an event's arrival to the end of the request that delivered it, retries included.",
            queries=tuple(quantile(share, "leveret_delivery_seconds") for share in (0.5, 0.95, 0.99)),
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
            text="Messages ready on the broker, by kind of queue. lane: fresh events; wait: retries.",
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
            text="HTTP requests by how often the delivery was tried. All but 1 are retries.",
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
                    over_range("leveret_attempts_by_number_total", "attempt"),
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
            text="Failed requests by HTTP status, or by the kind of error where no status came.",
            queries=(Query(rate("leveret_failures_total", by="code"), "{{code}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook="many-requests-fail",
        ),
        PanelSpec(
            title="Planned waits",
            text="How long the retries planned just now wait: the backoff, jitter and Retry-After included.",
            queries=(
                Query(f"sum by (le) (increase(leveret_retry_wait_seconds_bucket{{@}}{RATE}))", "{{le}}"),
            ),
            kind=Kind.HEAT,
            unit="s",
        ),
        PanelSpec(
            title="Time between attempts",
            text="What really lay between two attempts, beside the mean wait that was planned.",
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
    ),
)

PARKED = RowSpec(
    "Parked",
    (
        PanelSpec(
            title="Parked entries",
            text="Entries that wait for an operator, and those that a full parked queue refused.",
            queries=(
                Query('max by (queue) (leveret_queue_messages{@,queue=~"parked|overflow"})', "{{queue}}"),
            ),
            warn=50,
            bad=100,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Not empty for",
            text="No parked entry is older than this. After 7 days ([topology] parked_ttl_s) it is archived.",
            queries=(
                Query(
                    "time() - max(max_over_time(leveret_parked_empty_timestamp_seconds{@}[7d]) > 0)",
                    "not empty for",
                ),
            ),
            kind=Kind.BARS,
            unit="s",
            warn=345_600,
            bad=518_400,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Share parked",
            text="Parked of all deliveries that ended. Over 2 % an alert fires.",
            queries=(
                ratio(
                    rate("leveret_deliveries_total", ',verdict="parked"'),
                    rate("leveret_deliveries_total", ',verdict=~"delivered|parked"'),
                    "parked",
                ),
            ),
            unit="percentunit",
            warn=0.01,
            bad=0.02,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by reason",
            text="Why things are parked. malformed and its like are the publisher's, the rest endpoints'.",
            queries=(Query(over_range("leveret_parked_total", "reason") + " > 0", "{{reason}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by last failure",
            text="What the last attempt came to. none: nothing was sent, such as to a disabled endpoint.",
            queries=(Query(over_range("leveret_parked_by_code_total", "code"), "{{code}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by tenant",
            text="The ten tenants of which most was parked in the chosen time. Over 50 an alert fires.",
            queries=(
                Query(
                    f"topk(10, {over_range('leveret_tenant_parked_total', 'tenant')})",
                    "{{tenant}}",
                ),
            ),
            kind=Kind.BARS,
            width=6,
            warn=25,
            bad=50,
            runbook="much-is-parked-for-one-tenant",
        ),
        PanelSpec(
            title="How long it stood parked",
            text="Age at which entries left the parked queue in the chosen time, by where they went.",
            queries=(
                Query(
                    over_range("leveret_parked_age_seconds_bucket", "way, le"),
                    "{{way}} after up to {{le}} s",
                ),
            ),
            kind=Kind.BARS,
            width=6,
        ),
    ),
)

ENDPOINTS = RowSpec(
    "Endpoints",
    (
        PanelSpec(
            title="Breakers",
            text="Endpoints by the state of their breaker, as the worker with most of them sees it.",
            queries=(Query("max by (state) (leveret_breakers{@})", "{{state}}"),),
            kind=Kind.STACK,
            runbook="one-endpoint-is-down",
        ),
        PanelSpec(
            title="Breakers that opened",
            text="Times that a breaker opened, per minute. Many at once: look at your own network first.",
            queries=(Query(f"60 * {rate('leveret_breaker_openings_total')}", "openings/min"),),
            runbook="one-endpoint-is-down",
        ),
        PanelSpec(
            title="Put off",
            text="Targets put off without an attempt. saturated or slow: it takes less than there is.",
            queries=(Query(rate("leveret_deferrals_total", by="reason"), "{{reason}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
    ),
)

TENANTS = RowSpec(
    "Tenants",
    (
        PanelSpec(
            title="Jobs by tenant",
            text="The ten busiest tenants. other: all those without a series of their own.",
            queries=(Query(f"topk(10, {rate('leveret_tenant_jobs_total', by='tenant')})", "{{tenant}}"),),
            kind=Kind.STACK,
            unit="ops",
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Messages that wait for their tenant's turn",
            text="In hand and not started. One tenant alone: it floods. All: too few workers.",
            queries=(Query("topk(10, sum by (tenant) (leveret_tenant_waiting_messages{@}))", "{{tenant}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Rounds without service",
            text="Turns that others had since the tenant's own last one, while it waits.",
            queries=(Query("topk(10, max by (tenant) (leveret_tenant_rounds_waited{@}))", "{{tenant}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Tenants now",
            text="Where each tenant stands: jobs in all and in a row, what waits, priority (1 is highest).",
            queries=(
                Query("sum by (tenant) (leveret_tenant_jobs_total{@})", "jobs"),
                Query(
                    "time() - max by (tenant) (leveret_tenant_last_job_timestamp_seconds{@} > 0)", "idle s"
                ),
                Query("sum by (tenant) (leveret_tenant_waiting_messages{@})", "waiting"),
                Query("max by (tenant) (leveret_tenant_rounds_waited{@})", "rounds"),
                Query("min by (tenant) (leveret_tenant_priority{@})", "priority"),
                Query("max by (tenant) (leveret_tenant_consecutive_jobs{@})", "in a row"),
                Query("sum by (tenant) (leveret_tenant_parked_total{@})", "parked"),
                Query("sum by (tenant) (leveret_tenant_replayed_total{@})", "replayed"),
            ),
            kind=Kind.TABLE,
            width=24,
            height=8,
            runbook="one-tenant-floods",
        ),
    ),
)

WORKERS = RowSpec(
    "Workers and broker",
    (
        PanelSpec(
            title="In hand, not started",
            text="Messages that the broker gave out and no job works on yet, by source.",
            queries=(Query("sum by (source) (leveret_window_messages{@})", "{{source}}"),),
            kind=Kind.STACK,
        ),
        PanelSpec(
            title="Publish to confirm",
            text="How long the broker takes to confirm what we publish. Over 5 s nothing new is sent.",
            queries=tuple(quantile(share, "leveret_confirm_seconds") for share in (0.5, 0.99)),
            unit="s",
            warn=1,
            bad=5,
            runbook="nothing-is-sent-readyz-is-red",
        ),
        PanelSpec(
            title="Trouble with the broker",
            text="Publishes not confirmed, acks that came too late, connections refused and made again.",
            queries=(
                Query(rate("leveret_publish_failures_total", by="error"), "publish {{error}}"),
                Query(rate("leveret_connect_failures_total"), "connection refused"),
                Query(rate("leveret_reconnects_total"), "connected again"),
                Query(rate("leveret_stale_settles_total"), "stale ack"),
            ),
            unit="ops",
            runbook="the-broker-refuses-connections",
        ),
        PanelSpec(
            title="Event loop",
            text="How late the worker's loop woke. Over a second it is short of CPU.",
            queries=(Query("max by (instance) (leveret_loop_lag_seconds{@})", "{{instance}}"),),
            unit="s",
            warn=0.1,
            bad=1,
        ),
        PanelSpec(
            title="Subscriptions",
            text="In memory, enabled or not.",
            queries=(Query("max by (enabled) (leveret_subscriptions{@})", "enabled {{enabled}}"),),
        ),
        PanelSpec(
            title="Reloads and tenants",
            text="Reloads of the subscriptions per minute, and tenants without a series of their own.",
            queries=(
                Query(f"60 * {rate('leveret_reloads_total', by='result')}", "reloads {{result}}/min"),
                Query("max by (series) (leveret_tenants{@})", "tenants, {{series}} series"),
            ),
            runbook="the-subscriptions-file-is-damaged",
        ),
    ),
)

ROWS = (NOW, THROUGHPUT, ATTEMPTS, PARKED, ENDPOINTS, TENANTS, WORKERS)
