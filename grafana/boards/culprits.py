"""Panels that name the cause: sick subscriptions, tenants, queues of the broker and its nodes."""

from __future__ import annotations

from grafana.promql import FIVE_MINUTES, OF_SUBSCRIPTION, OF_TENANT, by_node, most, or_none, rate, total
from grafana.spec import Kind, PanelSpec, Query

TROUBLE = f"leveret_subscription_trouble{{@{OF_SUBSCRIPTION}}}"
SICK_ONES = f"max by (subscription) ({TROUBLE}) > 0"
BREAKER_STATES = {"0": "closed", "1": "probing", "2": "open"}
STARVED_ROUNDS = 5
STARVED_S = 60
REROUTED = f"max by (tenant) (leveret_tenant_rerouted{{@{OF_TENANT}}}) > 0"
_ROUNDS = f"max by (tenant) (leveret_tenant_rounds_waited{{@{OF_TENANT}}}) >= {STARVED_ROUNDS}"
_HAS_WORK = f"sum by (tenant) (leveret_tenant_waiting_messages{{@{OF_TENANT}}}) > 0"
_SERVED = f"max by (tenant) (leveret_tenant_last_job_timestamp_seconds{{@}}) > time() - {STARVED_S}"
STARVED = f"({_ROUNDS} or {_HAS_WORK} unless {_SERVED})"
ODD_TENANTS = f"({REROUTED} or {STARVED})"
ALARMS = (
    "(rabbitmq_alarms_memory_used_watermark{#} + rabbitmq_alarms_free_disk_space_watermark{#}"
    " + rabbitmq_alarms_file_descriptor_limit{#})"
)
NEAR_LIMIT = "the-brokers-memory-or-disk-is-near-its-limit"


def subscription_columns(restriction: str) -> tuple[Query, ...]:
    """Return success, latency, waiting, parked and breaker of subscriptions, one column each.

    Args:
        restriction: PromQL behind each expression, such as `` and on (subscription) ...``.
    """
    name = "subscription"
    attempts = rate("leveret_subscription_attempts_total", OF_SUBSCRIPTION, name, FIVE_MINUTES)
    delivered = attempts.replace("{@", '{@,result="delivered"')
    latency = most("leveret_subscription_latency_seconds", name, OF_SUBSCRIPTION)
    waiting = total("leveret_subscription_waiting_deliveries", name, OF_SUBSCRIPTION)
    parked = most("leveret_subscription_parked_entries", name, OF_SUBSCRIPTION)
    breaker = most("leveret_subscription_breaker", name, OF_SUBSCRIPTION)
    columns = (
        Query(f"{delivered} / ({attempts} > 0)", "success", "percentunit", warn=0.98, bad=0.9),
        Query(latency, "p95", "s", warn=5, bad=15),
        Query(waiting, "waiting", "short"),
        Query(parked, "parked", "short", warn=1, bad=50),
        Query(breaker, "breaker", "short", warn=1, bad=2, values=BREAKER_STATES),
    )
    return tuple(column.behind(restriction) for column in columns)


def trouble_columns() -> tuple[Query, ...]:
    """Return the share of the work in trouble with its cause, and the time since which it is seen."""
    worst = f"topk by (subscription) (1, max by (subscription, cause) ({TROUBLE}) > 0)"
    seen = f"min_over_time(timestamp({TROUBLE} > 0)[$__range:$__interval])"
    return (
        Query(worst, "trouble", "percentunit", warn=0.05, bad=0.5),
        Query(
            f"1000 * min by (subscription) ({seen}) and on (subscription) {SICK_ONES}",
            "since",
            "dateTimeFromNow",
        ),
    )


SICK_TABLE = PanelSpec(
    title="Sick subscriptions and their cause",
    text="The subscriptions in trouble, as tenant/name. trouble: share of the last minute's work that "
    "failed or was held. cause: http_5xx, timeout_total, tls, dns, rate_limited (429) and so on are results "
    "of requests; slow and waiting: the endpoint accepts less than there is to send; parked: entries need "
    "an operator; disabled: Leveret sends nothing any more. since: first seen in the time that is shown. "
    "success: in 5 minutes. p95: 95 of 100 requests are faster. breaker: open while nothing is sent because "
    "of failures in a row, probing while one request is tried.",
    queries=(*trouble_columns(), *subscription_columns(f" and on (subscription) {SICK_ONES}")),
    kind=Kind.TABLE,
    width=17,
    height=9,
    sort="trouble",
    runbook="one-endpoint-is-down",
)

TENANT_TABLE = PanelSpec(
    title="Rerouted or starved tenants",
    text="why: a rerouted tenant is noisy, and its new events take another queue so that others do not wait "
    "behind them; a starved one waited for five or more rounds, or has work in hand and no job was started "
    "for 60 s. In a round each tenant that waits gets its share. other: all tenants without a series of "
    "their own.",
    queries=(
        Query(
            f'label_replace({REROUTED}, "why", "rerouted", "", "") or '
            f'label_replace({STARVED}, "why", "starved", "", "")',
            "rerouted or rounds",
        ),
        *(
            Query(expr, name, unit).behind(f" and on (tenant) {ODD_TENANTS}")
            for expr, name, unit in (
                (most("leveret_tenant_rounds_waited", "tenant"), "rounds", "short"),
                (rate("leveret_tenant_jobs_total", by="tenant"), "jobs", "ops"),
                (total("leveret_tenant_waiting_messages", "tenant"), "in hand", "short"),
                (total("leveret_tenant_in_flight_deliveries", "tenant"), "in flight", "short"),
            )
        ),
    ),
    kind=Kind.TABLE,
    width=9,
    height=7,
    sort="in hand",
    hidden=("Value #A",),
    runbook="one-tenant-floods",
)

OVERDUE = PanelSpec(
    title="Queues that do not give back",
    text="late: for how long a queue of the broker has not given back a message whose time is over, from "
    "20 s on; the five queues with the longest time. overdue: messages that it should have given back over "
    "60 s ago. The commands of the runbook free them.",
    queries=(
        Query(
            or_none("topk(5, max by (queue) (leveret_queue_late_seconds{@}) > 0)", "queue"),
            "late",
            "s",
            warn=20,
            bad=60,
        ),
        Query(
            or_none("topk(5, sum by (queue) (leveret_queue_overdue_messages{@}) > 0)", "queue"),
            "overdue",
            "short",
            bad=1,
        ),
    ),
    kind=Kind.TABLE,
    width=5,
    height=7,
    sort="late",
    runbook="a-queue-does-not-give-back-its-messages",
)

NODES = PanelSpec(
    title="Nodes of the broker",
    text="RabbitMQ blocks every publisher while a node raises an alarm: memory at its limit, or less free "
    "disk than its minimum. handles: open files and sockets; without free ones the node refuses "
    "connections.",
    queries=(
        Query(
            by_node("rabbitmq_process_resident_memory_bytes{#} / rabbitmq_resident_memory_limit_bytes{#}"),
            "memory of limit",
            warn=0.8,
            bad=0.9,
        ),
        Query(
            by_node("rabbitmq_disk_space_available_bytes{#} / rabbitmq_disk_space_available_limit_bytes{#}"),
            "disk by minimum",
            "short",
            warn=3,
            bad=1.5,
        ),
        Query(
            by_node("rabbitmq_process_open_fds{#} / rabbitmq_process_max_fds{#}"),
            "handles of limit",
            warn=0.8,
            bad=0.9,
        ),
        Query(
            by_node(ALARMS),
            "alarms",
            "short",
            bad=1,
        ),
    ),
    kind=Kind.TABLE,
    unit="percentunit",
    width=10,
    height=7,
    sort="memory of limit",
    hidden=("instance",),
    runbook=NEAR_LIMIT,
)
