"""Lower rows of the overview: troubles over time, the flow of events, the balance of targets."""

from __future__ import annotations

from grafana.boards.culprits import NEAR_LIMIT, TROUBLE
from grafana.promql import OF_TENANT, by_node, most, or_none, quantile, rate, total
from grafana.spec import Kind, PanelSpec, Query, RowSpec

OF_LANES = ',source="lane"'

TIMES = RowSpec(
    "Since when?",
    (
        PanelSpec(
            title="Subscriptions in trouble, over time",
            text="A line for each subscription; red while a part of its last minutes' work failed or was "
            "held back.",
            queries=(Query(f"max by (subscription) ({TROUBLE}) > 0", "{{subscription}}"),),
            kind=Kind.TIMELINE,
            unit="percentunit",
            width=12,
            height=9,
            bad=0,
            runbook="one-endpoint-is-down",
        ),
        PanelSpec(
            title="Other troubles, over time",
            text="Red while a worker is not ready or is under back-pressure, a tenant is rerouted, a queue "
            "does not give back its messages, or a node of the broker raises an alarm.",
            queries=(
                Query("1 - min by (instance) (leveret_ready{@})", "not ready: {{instance}}"),
                Query("max by (instance) (leveret_pressed{@})", "back-pressure: {{instance}}"),
                Query(
                    f"max by (tenant) (leveret_tenant_rerouted{{@{OF_TENANT}}}) > 0", "rerouted: {{tenant}}"
                ),
                Query(
                    or_none("max by (queue) (leveret_queue_overdue_messages{@}) > 0", "queue"),
                    "not given back: {{queue}}",
                ),
                Query(by_node("rabbitmq_alarms_memory_used_watermark{#}"), "memory alarm: {{rabbitmq_node}}"),
                Query(
                    by_node("rabbitmq_alarms_free_disk_space_watermark{#}"), "disk alarm: {{rabbitmq_node}}"
                ),
            ),
            kind=Kind.TIMELINE,
            width=12,
            height=9,
            bad=0.01,
            runbook=NEAR_LIMIT,
        ),
    ),
)

FLOW = RowSpec(
    "Flow",
    (
        PanelSpec(
            title="Events",
            text="Events taken from the lanes, the queues of fresh events, by their result. unmatched: no "
            "subscription wants the event. inbox: an event without an id or tenant goes once more through a "
            "lane. suspect: its worker ended while it had the event, so that the event is tried alone. bad: "
            "parked, as it is not valid.",
            queries=(Query(rate("leveret_events_total", by="outcome"), "{{outcome}}"),),
            unit="eps",
            runbook="find-one-delivery",
        ),
        PanelSpec(
            title="Deliveries that ended",
            text="Deliveries by their end. cancelled: the subscription was deleted. archived: parked for "
            "too long.",
            queries=(Query(rate("leveret_deliveries_total", by="verdict"), "{{verdict}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook="parked-grows",
        ),
        PanelSpec(
            title="From event to delivery",
            text="Time from an event's arrival to its delivery, retries included. p95: 95 of 100 took less.",
            queries=tuple(quantile(share, "leveret_delivery_seconds") for share in (0.5, 0.95, 0.99)),
            unit="s",
            warn=60,
            bad=300,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Failures by code",
            text="Failed requests by HTTP status, or by the kind of error where no status arrived.",
            queries=(Query(rate("leveret_failures_total", by="code"), "{{code}}"),),
            kind=Kind.STACK,
            unit="reqps",
            runbook="many-requests-fail",
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
            title="Waiting on the broker",
            text="lane: fresh events that no worker has read; a growing lane needs more workers. spill: "
            "events of rerouted tenants. wait: deliveries that wait for their next attempt.",
            queries=(
                Query(most("leveret_queue_messages", "queue", ',queue=~"lane|spill|wait"'), "{{queue}}"),
            ),
            runbook="too-much-waits",
        ),
    ),
)

TARGETS = RowSpec(
    "Balance of targets: is a delivery lost?",
    (
        PanelSpec(
            title="Unaccounted targets",
            text="A target is one event for one subscription. Owed targets, minus those that ended, wait or "
            "are in flight. A value that stays over 0 is a loss; a worker that was killed makes it negative "
            "at most by the targets that it had in flight, as their messages come back.",
            queries=(
                Query(
                    f"{total('leveret_targets_owed_total')} - "
                    f"({total('leveret_targets_interrupted_total', more=OF_LANES)} or vector(0)) - "
                    f"({total('leveret_targets_ended_total')} or vector(0)) - "
                    f"{total('leveret_targets_waiting')} - {total('leveret_targets_in_flight')}",
                    "unaccounted",
                ),
            ),
            bad=1,
            runbook="the-balance-of-deliveries-is-broken",
        ),
        PanelSpec(
            title="Targets owed and ended",
            text="Targets that became owed, and those that ended, by their end; and those of workers that "
            "were killed.",
            queries=(
                Query(rate("leveret_targets_owed_total"), "owed"),
                Query(rate("leveret_targets_ended_total", by="verdict"), "{{verdict}}"),
                Query(rate("leveret_targets_interrupted_total", by="source"), "interrupted: {{source}}"),
            ),
            unit="ops",
        ),
        PanelSpec(
            title="Targets that are open",
            text="Targets that wait for their next attempt and those in flight, by the workers' own books.",
            queries=(
                Query(total("leveret_targets_waiting"), "waiting"),
                Query(total("leveret_targets_in_flight"), "in flight"),
            ),
            kind=Kind.STACK,
        ),
        PanelSpec(
            title="Delivery messages, by the books",
            text="Messages with targets that the workers stored and did not take again. The broker has fewer "
            "of them only if it lost some.",
            queries=(Query(total("leveret_waiting_messages"), "by the books"),),
        ),
    ),
    collapsed=True,
)
