"""The dashboard's lower rows: what is parked, endpoints, workers and the broker.

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
            title="Bytes in hand",
            text="What the messages in hand take. From half of [limits] memory_bytes on no more is read.",
            queries=(Query("max by (instance) (leveret_held_bytes{@})", "{{instance}}"),),
            unit="bytes",
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
            title="Broker against plan",
            text="Differences that `leveret topology check` names: file handles, policies, bindings.",
            queries=(Query("max by (severity) (leveret_topology_findings{@})", "{{severity}}"),),
            runbook="the-broker-differs-from-the-plan",
        ),
        PanelSpec(
            title="Event loop",
            text="Longest stop of the worker's loop in the last minute. Over a second it is short of CPU.",
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
            title="Store",
            text="1 while it can be used and is right; locked subscriptions; lines given up.",
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
            title="Reloads and tenants",
            text="Reloads of the subscriptions per minute, and tenants without a series of their own.",
            queries=(
                Query(f"60 * {rate('leveret_reloads_total', by='result')}", "reloads {{result}}/min"),
                Query("max by (series) (leveret_tenants{@})", "tenants, {{series}} series"),
            ),
            runbook="the-store-is-away-or-damaged",
        ),
        PanelSpec(
            title="Bytes that wait",
            text="What is on the ladder, estimated. From the limit on fresh events stay in their lanes.",
            queries=(
                Query("max(leveret_waiting_bytes{@})", "waiting"),
                Query("max(leveret_waiting_limit_bytes{@})", "limit"),
            ),
            unit="bytes",
            runbook="too-much-waits",
        ),
        PanelSpec(
            title="Workers that live",
            text="As each worker counts them; rates are divided by it. Who differs is cut off.",
            queries=(Query("max by (instance) (leveret_workers{@})", "{{instance}}"),),
        ),
        PanelSpec(
            title="Operational events",
            text="Published per minute, on the exchange and as webhooks.",
            queries=(Query(f"60 * {rate('leveret_ops_events_total')}", "events/min"),),
        ),
    ),
)
