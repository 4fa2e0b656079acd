"""The nodes of RabbitMQ by its own series, and Leveret's queues on it by kind."""

from __future__ import annotations

from grafana.boards.culprits import NEAR_LIMIT
from grafana.promql import RATE, by_node, most, quantile, rate
from grafana.spec import Kind, PanelSpec, Query, RowSpec

NODE = "{{rabbitmq_node}}"
REFUSES = "the-broker-refuses-connections"

BROKER = RowSpec(
    "RabbitMQ",
    (
        PanelSpec(
            title="Nodes",
            text="Each node with its start, connections, channels, queues, and Erlang processes as a share "
            "of their limit.",
            queries=(
                Query(
                    by_node("1000 * (time() - rabbitmq_erlang_uptime_seconds{#})"),
                    "up since",
                    "dateTimeFromNow",
                ),
                Query(by_node("rabbitmq_connections{#}"), "connections"),
                Query(by_node("rabbitmq_channels{#}"), "channels"),
                Query(by_node("sum by (job, instance) (rabbitmq_global_consumers{#})"), "consumers"),
                Query(by_node("rabbitmq_queues{#}"), "queues"),
                Query(
                    by_node("rabbitmq_erlang_processes_used{#} / rabbitmq_erlang_processes_limit{#}"),
                    "processes",
                    "percentunit",
                    warn=0.7,
                    bad=0.9,
                ),
            ),
            kind=Kind.TABLE,
            width=24,
            height=5,
            sort="queues",
            runbook=REFUSES,
        ),
        PanelSpec(
            title="Memory of the broker",
            text="Memory of each node, and its limit (the high watermark). At the limit RabbitMQ blocks all "
            "publishers.",
            queries=(
                Query(by_node("rabbitmq_process_resident_memory_bytes{#}"), NODE),
                Query(by_node("rabbitmq_resident_memory_limit_bytes{#}"), f"limit: {NODE}"),
            ),
            unit="bytes",
            runbook=NEAR_LIMIT,
        ),
        PanelSpec(
            title="Free disk of the broker",
            text="Free disk of each node, and the minimum. Below it RabbitMQ blocks all publishers.",
            queries=(
                Query(by_node("rabbitmq_disk_space_available_bytes{#}"), NODE),
                Query(by_node("rabbitmq_disk_space_available_limit_bytes{#}"), f"minimum: {NODE}"),
            ),
            unit="bytes",
            runbook=NEAR_LIMIT,
        ),
        PanelSpec(
            title="Handles of the broker",
            text="Open files and sockets of each node, and its limit. A quorum queue takes two to three "
            "handles.",
            queries=(
                Query(by_node("rabbitmq_process_open_fds{#}"), NODE),
                Query(by_node("rabbitmq_process_max_fds{#}"), f"limit: {NODE}"),
            ),
            runbook=REFUSES,
        ),
        PanelSpec(
            title="Messages through the broker",
            width=12,
            text="Messages that RabbitMQ got, confirmed, gave out, had acked, gave out again and passed on "
            "as their wait ended (expired dead letters), of all its applications.",
            queries=tuple(
                Query(f"sum(rate(rabbitmq_global_messages_{name}_total{{#}}{RATE}))", words)
                for name, words in (
                    ("received", "received"),
                    ("confirmed", "confirmed"),
                    ("delivered", "given out"),
                    ("acknowledged", "acked"),
                    ("redelivered", "given out again"),
                    ("dead_lettered_expired", "wait ended"),
                )
            ),
            unit="mps",
        ),
        PanelSpec(
            title="Messages in the broker",
            width=12,
            text="Messages of all queues of the broker: ready, in the hands of consumers (unacked), and "
            "neither: dead letters on their way to another queue. Such messages that stay are stuck.",
            queries=(
                Query("sum(rabbitmq_queue_messages_ready{#})", "ready"),
                Query("sum(rabbitmq_queue_messages_unacked{#})", "unacked"),
                Query(
                    "sum(rabbitmq_queue_messages{#}) - sum(rabbitmq_queue_messages_ready{#}) - "
                    "sum(rabbitmq_queue_messages_unacked{#})",
                    "dead letters on their way",
                ),
            ),
            kind=Kind.STACK,
            runbook="dead-letters-do-not-leave",
        ),
    ),
)

QUEUES = RowSpec(
    "Leveret's queues",
    (
        PanelSpec(
            title="Queues by kind",
            text="Messages, those in hand included where the kind says so. lane: fresh events. spill: "
            "events of rerouted tenants. wait: deliveries until their next attempt. due: deliveries whose "
            "wait has ended. replay: parked entries to be sent again. suspect: events that are tried alone. "
            "parked, overflow: for an operator. expired, stray: to be archived.",
            queries=(Query(most("leveret_queue_messages", "queue"), "{{queue}}"),),
            width=12,
            height=10,
            runbook=NEAR_LIMIT,
        ),
        PanelSpec(
            title="Bytes that wait",
            text="Estimated bytes of the deliveries that wait. At the limit fresh events stay in their "
            "lanes.",
            queries=(
                Query(most("leveret_waiting_bytes"), "waiting"),
                Query(most("leveret_waiting_limit_bytes"), "limit"),
            ),
            unit="bytes",
            width=12,
            height=10,
            runbook="too-much-waits",
        ),
    ),
)

WORK = RowSpec(
    "Between workers and broker",
    (
        PanelSpec(
            title="Publish to confirm",
            text="Time from a publish to its confirm: the broker has stored the message. Over 5 s nothing "
            "new is sent.",
            queries=tuple(quantile(share, "leveret_confirm_seconds") for share in (0.5, 0.99)),
            unit="s",
            warn=1,
            bad=5,
            runbook="nothing-is-sent-readyz-is-red",
        ),
        PanelSpec(
            title="Broker errors",
            text="Unconfirmed publishes by reason, refused connections, connections made again, stale acks "
            "(on a closed channel: the message comes again), and copies acked (another copy of the message "
            "made the attempt).",
            queries=(
                Query(rate("leveret_publish_failures_total", by="error"), "publish {{error}}"),
                Query(rate("leveret_connect_failures_total"), "connection refused"),
                Query(rate("leveret_reconnects_total"), "connected again"),
                Query(rate("leveret_stale_settles_total"), "stale ack"),
                Query(rate("leveret_repeated_deliveries_total"), "copy acked"),
            ),
            unit="ops",
            runbook=REFUSES,
        ),
        PanelSpec(
            title="Broker against plan",
            text="Findings of `leveret topology check`: differences of queues, policies, bindings and "
            "handles from the plan. Its command prints the remedies.",
            queries=(Query(most("leveret_topology_findings", "severity"), "{{severity}}"),),
            bad=1,
            runbook="the-broker-differs-from-the-plan",
        ),
    ),
    collapsed=True,
)
