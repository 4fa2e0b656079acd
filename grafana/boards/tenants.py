"""Tenants, and the sharing of a worker among them."""

from __future__ import annotations

from grafana.promql import OF_TENANT, RATE, most, rate, total
from grafana.spec import Kind, PanelSpec, Query, RowSpec

FLOODS = "one-tenant-floods"


def _columns() -> tuple[Query, ...]:
    """Return the columns of the table of tenants."""
    jobs = rate("leveret_tenant_jobs_total", OF_TENANT, "tenant")
    idle = f"time() - max by (tenant) (leveret_tenant_last_job_timestamp_seconds{{@{OF_TENANT}}} > 0)"
    priority = f"min by (tenant) (leveret_tenant_priority{{@{OF_TENANT}}})"
    return (
        Query(jobs, "jobs", "ops"),
        Query(idle, "idle", "s"),
        Query(total("leveret_tenant_waiting_messages", "tenant", OF_TENANT), "in hand"),
        Query(total("leveret_tenant_in_flight_deliveries", "tenant", OF_TENANT), "in flight"),
        Query(
            most("leveret_tenant_rerouted", "tenant", OF_TENANT),
            "rerouted",
            warn=1,
            values={"0": "no", "1": "yes"},
        ),
        Query(most("leveret_tenant_rounds_waited", "tenant", OF_TENANT), "rounds", warn=5, bad=20),
        Query(priority, "priority"),
        Query(most("leveret_tenant_consecutive_jobs", "tenant", OF_TENANT), "in a row"),
        Query(total("leveret_tenant_parked_total", "tenant", OF_TENANT), "parked ever"),
        Query(total("leveret_tenant_replayed_total", "tenant", OF_TENANT), "replayed ever"),
        Query(most("leveret_tenant_parked_entries", "tenant", OF_TENANT), "parked now", warn=25, bad=50),
    )


TENANTS = RowSpec(
    "Tenants",
    (
        PanelSpec(
            title="Tenants now",
            text="jobs: events and deliveries that were started for the tenant. idle: time since the last "
            "of them. in hand: messages that a worker has and did not start. rerouted: noisy, so its new "
            "events take another queue. rounds: rounds without service while it waits; in a round each "
            "tenant has its share. priority: 5, just served, to 1, waits longest. in a row: consecutive "
            "jobs. other: all other tenants.",
            queries=_columns(),
            kind=Kind.TABLE,
            width=24,
            height=9,
            sort="in hand",
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Jobs by tenant",
            text="Events and deliveries that were started, of the ten busiest tenants. other: all tenants "
            "without a series of their own.",
            queries=(
                Query(f"topk(10, {rate('leveret_tenant_jobs_total', OF_TENANT, 'tenant')})", "{{tenant}}"),
            ),
            kind=Kind.STACK,
            unit="ops",
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Messages in hand by tenant",
            text="Messages that a worker has and did not start. One tenant alone: it floods. All: too few "
            "workers.",
            queries=(
                Query(
                    f"topk(10, {total('leveret_tenant_waiting_messages', 'tenant', OF_TENANT)})", "{{tenant}}"
                ),
            ),
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Rounds without service",
            text="Rounds since the waiting tenant was last served. In a round each tenant has its share, so "
            "a number that grows means that the tenant starves.",
            queries=(
                Query(f"topk(10, {most('leveret_tenant_rounds_waited', 'tenant', OF_TENANT)})", "{{tenant}}"),
            ),
            warn=5,
            bad=20,
            runbook=FLOODS,
        ),
    ),
)

FAIRNESS = RowSpec(
    "Fairness among tenants",
    (
        PanelSpec(
            title="Jain's index",
            text="Evenness of the last minute's deliveries by weight, over the tenants that waited "
            "throughout: 1 is even, and 1/n means that one of n tenants got everything.",
            queries=(Query("min by (instance) (leveret_fairness_index{@})", "{{instance}}"),),
            warn=0.98,
            bad=0.9,
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Tenants that waited throughout",
            text="Tenants that had work in hand during the whole last minute. Many for long: too few "
            "workers.",
            queries=(Query(most("leveret_fairness_tenants", "instance"), "{{instance}}"),),
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Wait in hand",
            text="Time that a message was in hand before it started, by the share of the worker that it "
            "belongs to: fresh events, due retries, replays, spill (rerouted tenants) and suspects.",
            queries=tuple(
                Query(
                    f"histogram_quantile({share}, sum by (le, share) "
                    f"(rate(leveret_queue_wait_seconds_bucket{{@}}{RATE})))",
                    f"{{{{share}}}} p{share * 100:g}",
                )
                for share in (0.5, 0.95)
            ),
            unit="s",
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Rerouted tenants",
            text="Noisy tenants whose events go to a spill queue, and tenants with a lane of their own by "
            "the settings.",
            queries=(
                Query(most("leveret_noisy_tenants"), "rerouted"),
                Query(most("leveret_dedicated_tenants"), "with a lane of their own"),
            ),
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Reroutes and moved messages",
            text="Times that a tenant was rerouted, and messages not started that were moved to a spill "
            "queue or to the end of their own queue, per minute.",
            queries=(
                Query(f"60 * {rate('leveret_tenant_spills_total')}", "reroutes"),
                Query(f"60 * {rate('leveret_moved_messages_total')}", "moved messages"),
            ),
            unit="cpm",
            runbook=FLOODS,
        ),
        PanelSpec(
            title="Borrow limit",
            text="Requests that one tenant may have in flight while no other waits. A busy event loop "
            "lowers it.",
            queries=(Query("min by (instance) (leveret_borrowable_deliveries{@})", "{{instance}}"),),
        ),
    ),
    collapsed=True,
)
