"""Rules that name a subscription, a tenant or a queue, and those on the broker."""

from __future__ import annotations

from typing import Final

from consumer.core.tools.alerts.model import Alert, Group, Severity

_NAMED: Final = '@,subscription!="other"'
_CAUSE: Final = (
    "{{ with printf `topk(1, leveret_subscription_trouble{@,subscription=%q})` $labels.subscription | query "
    '}} The cause is {{ . | first | label "cause" }}.{{ end }}'
)
_NOT_DOWN: Final = "breaker|disabled|locked|parked|paused|slow"
"""Causes that an operator set, or that have an alert of their own."""

_ENDPOINTS: Final = (
    Alert(
        name="LeveretEndpointTrouble",
        expr=f'max by (@, subscription) (leveret_subscription_trouble{{{_NAMED},cause!~"{_NOT_DOWN}"}}) '
        "> <trouble_share> and on (@, subscription) ("
        f"max by (@, subscription) (leveret_subscription_breaker{{{_NAMED}}}) > 0 "
        f"or sum by (@, subscription) (leveret_subscription_waiting_deliveries{{{_NAMED}}}) > <trouble> "
        "or sum by (@, subscription) (increase("
        f'leveret_subscription_attempts_total{{{_NAMED},result="failed"}}[10m])) > <trouble>)',
        hold="5m",
        summary="Deliveries to an endpoint fail or are held.",
        description="{{ $value | humanizePercentage }} of the last work for {{ $labels.subscription }} "
        "failed or was held." + _CAUSE,
        section="one-endpoint-is-down",
    ),
    Alert(
        name="LeveretEndpointSlow",
        expr=f"max by (@, subscription) (leveret_subscription_latency_seconds{{{_NAMED}}} > <latency_s> "
        "and on (@, instance, subscription) sum by (@, instance, subscription) "
        f"(increase(leveret_subscription_attempts_total{{{_NAMED}}}[1h])) > <slow_requests>) "
        f"and sum by (@, subscription) (increase(leveret_subscription_attempts_total{{{_NAMED}}}[5m])) > 0",
        hold="5m",
        summary="An endpoint answers slowly.",
        description="5 % of the requests to {{ $labels.subscription }} take "
        '{{ $value | printf "%.1f" }} s or longer.',
        section="one-endpoint-is-slow",
    ),
    Alert(
        name="LeveretEndpointDisabled",
        expr="max by (@) (leveret_subscriptions_disabled{@}) > <disabled>",
        hold="1m",
        summary="Leveret has disabled subscriptions.",
        description="{{ $value }} subscriptions are disabled: their endpoints answered 410, or accepted "
        "nothing for days. New events skip them, and their waiting deliveries are parked."
        '{{ range printf `leveret_subscription_trouble{@,cause="disabled"}` | query }}'
        " {{ .Labels.subscription }} is one of them.{{ end }}",
        section="an-endpoint-was-disabled",
    ),
    Alert(
        name="LeveretBreakerOpenLong",
        expr="time() - min by (@) (leveret_breaker_oldest_open_timestamp_seconds{@} > 0) > <breaker_open_s>",
        hold="5m",
        summary="A breaker has been open for more than <breaker_open_s~>.",
        description="An endpoint has accepted nothing for {{ $value | humanizeDuration }}. Its deliveries "
        "wait on the broker, and are parked when they get too old.",
        section="one-endpoint-is-down",
    ),
)

_TENANTS: Final = (
    Alert(
        name="LeveretTenantParked",
        expr="max by (@, tenant) (leveret_tenant_parked_entries{@}) > <tenant_parked>",
        summary="More than <tenant_parked> entries are parked for one tenant.",
        description="{{ $value }} entries of tenant {{ $labels.tenant }} are parked now.",
        section="much-is-parked-for-one-tenant",
    ),
    Alert(
        name="LeveretTenantFloods",
        expr="max by (@, tenant) (leveret_tenant_rerouted{@}) > 0",
        hold="5m",
        summary="A tenant floods Leveret.",
        description="The events of tenant {{ $labels.tenant }} have been rerouted around the lanes for 5 "
        "minutes. Other tenants are not delayed. (other: a tenant without series of its own.)",
        section="one-tenant-floods",
    ),
    Alert(
        name="LeveretTenantStarved",
        expr='sum by (@, tenant) (leveret_tenant_waiting_messages{@,tenant!="other"}) > 0 '
        "unless max by (@, tenant) (leveret_tenant_last_job_timestamp_seconds{@}) > time() - <starved_s> "
        "unless on (@) max by (@) (leveret_pressed{@}) == 1",
        hold="2m",
        summary="A tenant waits, and nothing of it is started.",
        description="{{ $value }} messages of tenant {{ $labels.tenant }} wait in the workers, and none of "
        "its messages was started for at least <starved_s~>.",
        section="a-tenant-is-starved",
    ),
)

_QUEUES: Final = (
    Alert(
        name="LeveretWaitingMuch",
        expr="max by (@) (leveret_waiting_bytes{@} / leveret_waiting_limit_bytes{@}) > <waiting_share>",
        hold="1m",
        summary="Many bytes wait for endpoints that are down.",
        description="Waiting deliveries take {{ $value | humanizePercentage }} of [limits] waiting_bytes. At "
        "100 % fresh events stay in their lanes.",
        section="too-much-waits",
    ),
    Alert(
        name="LeveretQueueOverdue",
        expr="sum by (@, queue) (leveret_queue_overdue_messages{@}) > 0",
        hold="5m",  # after a restart RabbitMQ sends an unconfirmed dead letter again only after 3 minutes
        summary="A queue does not give back its messages.",
        description="At least {{ $value }} messages in {{ $labels.queue }} are minutes late. Workers use "
        "other queues meanwhile.",
        section="a-queue-does-not-give-back-its-messages",
    ),
)

_MEMORY: Final = "rabbitmq_process_resident_memory_bytes{%} / rabbitmq_resident_memory_limit_bytes{%}"

_BROKER: Final = (
    Alert(
        name="LeveretBrokerAway",
        expr="up{%} == 0",
        hold="5m",
        summary="RabbitMQ's metrics do not answer.",
        description="Prometheus has had nothing from {{ $labels.instance }} for 5 minutes.",
        section="the-broker-refuses-connections",
    ),
    Alert(
        name="LeveretBrokerMemory80",
        expr=f"{_MEMORY} > <memory_share>",
        hold="2m",
        summary="The broker uses more than <memory_share%> of its memory.",
        description="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its memory limit. At "
        "100 % it blocks publishers.",
        section="the-brokers-memory-or-disk-is-near-its-limit",
    ),
    Alert(
        name="LeveretBrokerMemory90",
        expr=f"{_MEMORY} > <memory_full_share>",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="The broker uses more than <memory_full_share%> of its memory.",
        description="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its memory limit. At "
        "100 % it blocks publishers.",
        section="the-brokers-memory-or-disk-is-near-its-limit",
    ),
    Alert(
        name="LeveretBrokerDisk",
        expr="rabbitmq_disk_space_available_bytes{%} "
        "< <disk_factor> * rabbitmq_disk_space_available_limit_bytes{%}",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="The broker is short of disk.",
        description="{{ $labels.instance }} has {{ $value | humanize1024 }}B left. At its limit it blocks "
        "publishers.",
        section="the-brokers-memory-or-disk-is-near-its-limit",
    ),
    Alert(
        name="LeveretBrokerHandles",
        expr="rabbitmq_process_open_fds{%} / rabbitmq_process_max_fds{%} > <handles_share>",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="The broker is about to reject connections.",
        description="{{ $labels.instance }} has {{ $value | humanizePercentage }} of its file handles open; "
        "without one it takes no connection.",
        section="the-broker-refuses-connections",
    ),
    Alert(
        name="LeveretDeadLettersStuck",
        expr="sum by (@) (rabbitmq_queue_messages{%}) - sum by (@) (rabbitmq_queue_messages_ready{%}) "
        "- sum by (@) (rabbitmq_queue_messages_unacked{%}) > <dead_letters>",
        hold="10m",
        summary="Dead letters do not leave their queues.",
        description="{{ $value }} messages are on their way to a dead-letter queue, for 10 minutes. Waits "
        "and parked entries may be among them.",
        section="dead-letters-do-not-leave",
    ),
)

CARE: Final = (
    Group("leveret-endpoints", _ENDPOINTS),
    Group("leveret-tenants", _TENANTS, interval="1m"),
    Group("leveret-queues", _QUEUES),
    Group("leveret-broker", _BROKER),
)
