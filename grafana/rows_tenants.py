"""The dashboard's rows on how a worker is shared out: tenants, fairness."""

from __future__ import annotations

from grafana.promql import rate
from grafana.spec import Kind, PanelSpec, Query, RowSpec

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
            text="Rounds since the tenant was last served, while it waits. In each, all have their share.",
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

FAIRNESS = RowSpec(
    "Fairness",
    (
        PanelSpec(
            title="How even",
            text="Jain's index of the last minute, of the tenants that waited throughout; 1 is even.",
            queries=(Query("min by (instance) (leveret_fairness_index{@})", "{{instance}}"),),
            warn=0.98,
            bad=0.9,
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Tenants that waited throughout",
            text="Over them the index is taken. Many for long: too few workers.",
            queries=(Query("max by (instance) (leveret_fairness_tenants{@})", "{{instance}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Wait in hand",
            text="How long messages were in hand before they started, by what they are.",
            queries=tuple(
                Query(
                    f"histogram_quantile({share}, sum by (le, share) "
                    "(rate(leveret_queue_wait_seconds_bucket{@}[$__rate_interval])))",
                    f"{{{{share}}}} p{share * 100:g}",
                )
                for share in (0.5, 0.95)
            ),
            unit="s",
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Led around the lanes",
            text="Noisy tenants whose events go to a spill queue, as each worker knows; lanes of their own.",
            queries=(
                Query("max(leveret_noisy_tenants{@})", "noisy"),
                Query("max(leveret_dedicated_tenants{@})", "own lane"),
                Query(f"60 * {rate('leveret_tenant_spills_total')}", "led around/min"),
            ),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Moved out of hand",
            text="Messages not started that went to a spill queue, or to the end of their own.",
            queries=(Query(rate("leveret_moved_messages_total"), "moved"),),
            unit="ops",
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="What one tenant may borrow",
            text="Requests in flight, while nobody else waits. It sinks where the worker is short of CPU.",
            queries=(Query("min by (instance) (leveret_borrowable_deliveries{@})", "{{instance}}"),),
        ),
    ),
)
