"""The dashboard's lower rows: parked entries, endpoints, workers and the broker.

Gauges that every worker reads from the broker are joined with ``max``: the sum would count a queue twice.
"""

from __future__ import annotations

from grafana.promql import over_range, quantile, rate, ratio
from grafana.spec import Kind, PanelSpec, Query, RowSpec

PARKED = RowSpec(
    "Parked",
    (
        PanelSpec(
            title="Parked entries",
            text="Entries that wait for an operator, by queue and index; and those refused by a full queue.",
            queries=(
                Query('max by (queue) (leveret_queue_messages{@,queue=~"parked|overflow"})', "{{queue}}"),
                Query("max(leveret_parked_indexed_messages{@})", "in the index"),
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
            text="Share of the ended deliveries that were parked. Over 2 % an alert fires.",
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
            text="Reasons for parking. malformed and similar ones point to publishers, others to endpoints.",
            queries=(Query(over_range("leveret_parked_total", "reason") + " > 0", "{{reason}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by last failure",
            text="Result of the last attempt. none: nothing was sent, for example to a disabled endpoint.",
            queries=(Query(over_range("leveret_parked_by_code_total", "code"), "{{code}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by tenant",
            text="The ten tenants with the most parked entries now. Over 50 an alert fires.",
            queries=(
                Query(
                    "topk(10, max by (tenant) (leveret_tenant_parked_entries{@}))",
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
            title="Age when leaving",
            text="Age at which entries left the parked queue in the chosen time, by their destination.",
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
            text="Endpoints by the state of their breaker, of the worker with the most.",
            queries=(Query("max by (state) (leveret_breakers{@})", "{{state}}"),),
            kind=Kind.STACK,
            runbook="one-endpoint-is-down",
        ),
        PanelSpec(
            title="Breakers that opened",
            text="Breakers that opened, per minute. Many at once: check your own network first.",
            queries=(Query(f"60 * {rate('leveret_breaker_openings_total')}", "openings/min"),),
            runbook="one-endpoint-is-down",
        ),
        PanelSpec(
            title="Deferred",
            text="Deferrals by reason. saturated or slow: the endpoint accepts less than there is to send.",
            queries=(Query(rate("leveret_deferrals_total", by="reason"), "{{reason}}"),),
            kind=Kind.STACK,
            unit="reqps",
        ),
    ),
)

WORKERS = RowSpec(
    "Workers and broker",
    (
        PanelSpec(
            title="In hand, not started",
            text="Messages that the broker gave to a worker and that no job works on yet, by source.",
            queries=(Query("sum by (source) (leveret_window_messages{@})", "{{source}}"),),
            kind=Kind.STACK,
        ),
        PanelSpec(
            title="Bytes in hand",
            text="Bytes of the messages in hand. At half of [limits] memory_bytes the worker stops reading.",
            queries=(Query("max by (instance) (leveret_held_bytes{@})", "{{instance}}"),),
            unit="bytes",
        ),
        PanelSpec(
            title="Publish to confirm",
            text="Time from a publish to its confirm. Over 5 s Leveret sends nothing new.",
            queries=tuple(quantile(share, "leveret_confirm_seconds") for share in (0.5, 0.99)),
            unit="s",
            warn=1,
            bad=5,
            runbook="nothing-is-sent-readyz-is-red",
        ),
        PanelSpec(
            title="Broker errors",
            text="Unconfirmed publishes, late acks, refused connections, and connections made again.",
            queries=(
                Query(rate("leveret_publish_failures_total", by="error"), "publish {{error}}"),
                Query(rate("leveret_connect_failures_total"), "connection refused"),
                Query(rate("leveret_reconnects_total"), "connected again"),
                Query(rate("leveret_stale_settles_total"), "stale ack"),
                Query(rate("leveret_repeated_deliveries_total"), "copy acked"),
            ),
            unit="ops",
            runbook="the-broker-refuses-connections",
        ),
        PanelSpec(
            title="Broker against plan",
            text="Findings of `leveret topology check`: file handles, policies, bindings.",
            queries=(Query("max by (severity) (leveret_topology_findings{@})", "{{severity}}"),),
            runbook="the-broker-differs-from-the-plan",
        ),
        PanelSpec(
            title="Event loop",
            text="Longest lag of the event loop in the last minute. Over 1 s the worker is short of CPU.",
            queries=(Query("max by (instance) (leveret_loop_lag_seconds{@})", "{{instance}}"),),
            unit="s",
            warn=0.1,
            bad=1,
        ),
        PanelSpec(
            title="Subscriptions",
            text="Subscriptions in memory, enabled and disabled.",
            queries=(Query("max by (enabled) (leveret_subscriptions{@})", "enabled {{enabled}}"),),
        ),
        PanelSpec(
            title="Store",
            text="1 while the store works and is the right one; locked subscriptions; lines given up.",
            queries=(
                Query("min by (instance) (leveret_store_up{@})", "up, {{instance}}"),
                Query("min by (instance) (leveret_store_trusted{@})", "right, {{instance}}"),
                Query("max by (instance) (leveret_subscriptions_locked{@})", "locked, {{instance}}"),
                Query(f"60 * {rate('leveret_records_dropped_total')}", "given up/min"),
                Query(f"60 * {rate('leveret_log_lines_dropped_total')}", "log lines dropped/min"),
            ),
            runbook="the-store-is-away-or-damaged",
        ),
        PanelSpec(
            title="History",
            text="Rows of the history not recorded, and events sent without a look-up, per minute.",
            queries=(
                Query(f"60 * {rate('leveret_history_dropped_total', by='reason')}", "{{reason}}/min"),
                Query(f"60 * {rate('leveret_history_lookups_missed_total')}", "not looked up/min"),
            ),
            bad=1,
            runbook="the-history-has-gaps",
        ),
        PanelSpec(
            title="Spans",
            text="Recorded spans per minute: exported to the collector, or dropped. Empty without [tracing].",
            queries=(Query(f"60 * {rate('leveret_spans_total', by='result')}", "{{result}}/min"),),
        ),
        PanelSpec(
            title="Reloads and tenants",
            text="Reloads of the subscriptions per minute, and tenants without a series of their own.",
            queries=(
                Query(f"60 * {rate('leveret_reloads_total', by='result')}", "reloads {{result}}/min"),
                Query("max by (series) (leveret_tenants{@})", "tenants, {{series}} series"),
            ),
            runbook="the-store-is-away-or-damaged",
        ),
        PanelSpec(
            title="Waiting bytes",
            text="Estimated bytes on the ladder. At the limit fresh events stay in their lanes.",
            queries=(
                Query("max(leveret_waiting_bytes{@})", "waiting"),
                Query("max(leveret_waiting_limit_bytes{@})", "limit"),
            ),
            unit="bytes",
            runbook="too-much-waits",
        ),
        PanelSpec(
            title="Not given back",
            text="Messages that a queue should have given back over 60 s ago; the five queues with the most.",
            queries=(Query("topk(5, sum by (queue) (leveret_queue_overdue_messages{@}))", "{{queue}}"),),
            bad=1,
            runbook="a-queue-does-not-give-back-its-messages",
        ),
        PanelSpec(
            title="Failed tasks",
            text="Failures of background tasks per minute: the five worst tasks. The log has the errors.",
            queries=(
                Query(f"topk(5, 60 * {rate('leveret_task_failures_total', by='task')})", "{{task}}/min"),
            ),
            bad=1,
            runbook="a-task-ended-unexpectedly",
        ),
        PanelSpec(
            title="Live workers",
            text="Live workers, as each counts them. Rates are divided by it. One that differs is cut off.",
            queries=(Query("max by (instance) (leveret_workers{@})", "{{instance}}"),),
        ),
        PanelSpec(
            title="Operational events",
            text="Operational events per minute, on the exchange and as webhooks.",
            queries=(Query(f"60 * {rate('leveret_ops_events_total')}", "events/min"),),
        ),
    ),
)
