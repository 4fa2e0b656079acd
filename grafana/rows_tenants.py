"""The dashboard's rows on the sharing of a worker: tenants, fairness."""

from __future__ import annotations

from grafana.promql import rate
from grafana.spec import Kind, PanelSpec, Query, RowSpec

TENANTS = RowSpec(
    "Tenants",
    (
        PanelSpec(
            title="Jobs by tenant",
            text="The ten busiest tenants. other: all tenants without a series of their own.",
            queries=(Query(f"topk(10, {rate('leveret_tenant_jobs_total', by='tenant')})", "{{tenant}}"),),
            kind=Kind.STACK,
            unit="ops",
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Messages in hand by tenant",
            text="Messages in hand, not started. One tenant alone: it floods. All: too few workers.",
            queries=(Query("topk(10, sum by (tenant) (leveret_tenant_waiting_messages{@}))", "{{tenant}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Rounds without service",
            text="Rounds since the waiting tenant was last served. In a round each tenant has its share.",
            queries=(Query("topk(10, max by (tenant) (leveret_tenant_rounds_waited{@}))", "{{tenant}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Tenants now",
            text="Each tenant: jobs in all and in a row, waiting messages, priority (1 is highest).",
            queries=(
                Query("sum by (tenant) (leveret_tenant_jobs_total{@})", "jobs"),
                Query(
                    "time() - max by (tenant) (leveret_tenant_last_job_timestamp_seconds{@} > 0)", "idle s"
                ),
                Query("sum by (tenant) (leveret_tenant_waiting_messages{@})", "waiting"),
                Query("sum by (tenant) (leveret_tenant_in_flight_deliveries{@})", "in flight"),
                Query("max by (tenant) (leveret_tenant_rerouted{@})", "rerouted"),
                Query("max by (tenant) (leveret_tenant_rounds_waited{@})", "rounds"),
                Query("min by (tenant) (leveret_tenant_priority{@})", "priority"),
                Query("max by (tenant) (leveret_tenant_consecutive_jobs{@})", "in a row"),
                Query("sum by (tenant) (leveret_tenant_parked_total{@})", "parked"),
                Query("sum by (tenant) (leveret_tenant_replayed_total{@})", "replayed"),
                Query("max by (tenant) (leveret_tenant_parked_entries{@})", "parked now"),
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
            title="Jain's index",
            text="Evenness in the last minute, over the tenants that waited throughout; 1 is even.",
            queries=(Query("min by (instance) (leveret_fairness_index{@})", "{{instance}}"),),
            warn=0.98,
            bad=0.9,
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Tenants that waited throughout",
            text="Tenants that Jain's index counts. Many for long: too few workers.",
            queries=(Query("max by (instance) (leveret_fairness_tenants{@})", "{{instance}}"),),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Wait in hand",
            text="Time that messages were in hand before they started, by share.",
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
            title="Rerouted tenants",
            text="Noisy tenants whose events go to a spill queue; tenants with a dedicated lane.",
            queries=(
                Query("max(leveret_noisy_tenants{@})", "noisy"),
                Query("max(leveret_dedicated_tenants{@})", "dedicated lane"),
                Query(f"60 * {rate('leveret_tenant_spills_total')}", "rerouted/min"),
            ),
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Moved messages",
            text="Unstarted messages moved to a spill queue, or to the end of their own queue.",
            queries=(Query(rate("leveret_moved_messages_total"), "moved"),),
            unit="ops",
            runbook="one-tenant-floods",
        ),
        PanelSpec(
            title="Borrow limit",
            text="Requests in flight that a tenant may borrow while no other waits. Lag lowers it.",
            queries=(Query("min by (instance) (leveret_borrowable_deliveries{@})", "{{instance}}"),),
        ),
    ),
)
