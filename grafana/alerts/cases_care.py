"""Cases of the rules that name a subscription, a tenant or a queue, and of those on the broker."""

from __future__ import annotations

from typing import Final

from grafana.alerts.case import Case, Of, fires, silent

TROUBLE: Final = "leveret_subscription_trouble"
OVERDUE: Final = "leveret_queue_overdue_messages"
MEMORY: Final = "rabbitmq_process_resident_memory_bytes{%}"
MEMORY_LIMIT: Final = "rabbitmq_resident_memory_limit_bytes{%}"
DISK: Final = "rabbitmq_disk_space_available_bytes{%}"
DISK_LIMIT: Final = "rabbitmq_disk_space_available_limit_bytes{%}"

ENDPOINTS: Final[tuple[Case, ...]] = (
    fires(
        "LeveretEndpointTrouble",
        {
            f'{TROUBLE}{{@,subscription="acme/shop",cause="http_5xx"}}': "0 1x10 0x30",
            f'{TROUBLE}{{@,subscription="acme/shop",cause="timeout_total"}}': "_x10 0.9x30",
            'leveret_subscription_breaker{@,subscription="acme/shop"}': "0 2x40",
            f'{TROUBLE}{{@2,subscription="beta/crm",cause="tls"}}': "0.7x40",
            'leveret_subscription_breaker{@2,subscription="beta/crm"}': "2x40",
            f'{TROUBLE}{{@2,subscription="other",cause="tls"}}': "1x40",
            'leveret_subscription_breaker{@2,subscription="other"}': "3x40",
        },
        "8m",
        "90% of the last work for acme/shop failed or was held. The cause is timeout_total.",
        labels={"subscription": "acme/shop"},
    ),
    fires(
        "LeveretEndpointTrouble",
        {
            f'{TROUBLE}{{@,subscription="acme/shop",cause="rate_limited"}}': "0 1x40",
            'leveret_subscription_breaker{@,subscription="acme/shop"}': "0x40",
            'leveret_subscription_attempts_total{@,subscription="acme/shop",result="failed"}': "0+1x40",
        },
        "8m",
        "100% of the last work for acme/shop failed or was held. The cause is rate_limited.",
        note="with a closed breaker",
        labels={"subscription": "acme/shop"},
    ),
    silent(
        "LeveretEndpointTrouble",
        {
            f'{TROUBLE}{{@,subscription="acme/shop",cause="http_5xx"}}': "0x4 1x3 0x4 1x3 0x4 1x3 0x9 1x9",
            'leveret_subscription_breaker{@,subscription="acme/shop"}': "2x44",
            f'{TROUBLE}{{@,subscription="acme/old",cause="paused"}}': "1x40",
            'leveret_subscription_breaker{@,subscription="acme/old"}': "2x44",
        },
        *("4m", "8m"),
        note="for a flapping endpoint, and for one that an operator paused",
    ),
    silent(
        "LeveretEndpointTrouble",
        {
            f'{TROUBLE}{{@,subscription="acme/shop",cause="http_5xx"}}': "1x40",
            'leveret_subscription_breaker{@,subscription="acme/shop"}': "0x40",
            'leveret_subscription_waiting_deliveries{@,subscription="acme/shop"}': "1x40",
            'leveret_subscription_attempts_total{@,subscription="acme/shop",result="failed"}': "2x40",
        },
        "8m",
        note="for one delivery that waits for its retry",
    ),
    fires(
        "LeveretEndpointSlow",
        {
            'leveret_subscription_latency_seconds{@,subscription="acme/shop"}': "0.1 2.25x40",
            'leveret_subscription_attempts_total{@,subscription="acme/shop",result="delivered"}': "0+5x40",
        },
        "8m",
        "5 % of the requests to acme/shop take 2.2 s or longer.",
        labels={"subscription": "acme/shop"},
    ),
    silent(
        "LeveretEndpointSlow",
        {
            'leveret_subscription_latency_seconds{@,subscription="acme/shop"}': "0.1x4 6x8 1.9x40",
            'leveret_subscription_attempts_total{@,subscription="acme/shop",result="delivered"}': "0+1x50",
            'leveret_subscription_latency_seconds{@,subscription="acme/paused"}': "9x50",
            'leveret_subscription_attempts_total{@,subscription="acme/paused",result="failed"}': "0+1x4 5x50",
            'leveret_subscription_latency_seconds{@,subscription="other"}': "9x50",
            'leveret_subscription_attempts_total{@,subscription="other",result="failed"}': "0+1x50",
        },
        *("3m", "8m"),
    ),
    silent(
        "LeveretEndpointSlow",
        {
            'leveret_subscription_latency_seconds{@,subscription="acme/shop"}': "0.1 4x50",
            'leveret_subscription_attempts_total{@,subscription="acme/shop",result="delivered"}': "0+0.25x50",
            'leveret_subscription_latency_seconds{@2,subscription="acme/shop"}': "0.1x50",
            'leveret_subscription_attempts_total{@2,subscription="acme/shop",result="delivered"}': "0+5x50",
        },
        "12m",
        note="for one slow request among few, of a worker that started lately",
    ),
    fires(
        "LeveretEndpointDisabled",
        {
            "leveret_subscriptions_disabled{@}": "0 2x20",
            f'{TROUBLE}{{@,subscription="acme/shop",cause="disabled"}}': "_ 1x20",
        },
        "3m",
        "2 subscriptions are disabled: their endpoints answered 410, or accepted nothing for days. New "
        "events skip them, and their waiting deliveries are parked. acme/shop is one of them.",
    ),
    silent("LeveretEndpointDisabled", {"leveret_subscriptions_disabled{@}": "0x20"}, "3m"),
    fires(
        "LeveretBreakerOpenLong",
        {
            "leveret_breaker_oldest_open_timestamp_seconds{@}": "0x2 600x40",
            "leveret_breaker_oldest_open_timestamp_seconds{@2}": "0x40",
        },
        "80m",
        "An endpoint has accepted nothing for 1h 10m 0s. Its deliveries wait on the broker, and are parked "
        "when they get too old.",
        long=True,
    ),
    silent(
        "LeveretBreakerOpenLong",
        {"leveret_breaker_oldest_open_timestamp_seconds{@}": "0x2 600x8 3600x40"},
        *("60m", "100m"),
        long=True,
    ),
)

TENANTS: Final[tuple[Case, ...]] = (
    fires(
        "LeveretTenantParked",
        {
            'leveret_tenant_parked_entries{@,tenant="acme"}': "0x2 60x300",
            'leveret_tenant_parked_entries{@2,tenant="acme"}': "0x2 60x300",
            'leveret_tenant_parked_entries{@,tenant="beta"}': "0x2 40x300",
        },
        "25h",
        "60 entries of tenant acme are parked now.",
        labels={"tenant": "acme"},
        long=True,
    ),
    silent(
        "LeveretTenantParked",
        {
            'leveret_tenant_parked_entries{@,tenant="acme"}': "0x10 60x20 50x120",
            'leveret_tenant_parked_entries{@,tenant="beta"}': "0x10 40x130",
        },
        "30m",
    ),
    fires(
        "LeveretTenantFloods",
        {
            'leveret_tenant_rerouted{@,tenant="acme"}': "_x4 1x40",
            'leveret_tenant_rerouted{@,tenant="other"}': "0x40",
        },
        "8m",
        "The events of tenant acme have been rerouted around the lanes for 5 minutes. Other tenants are not "
        "delayed. (other: a tenant without series of its own.)",
        labels={"tenant": "acme"},
    ),
    silent(
        "LeveretTenantFloods",
        {'leveret_tenant_rerouted{@,tenant="acme"}': "_x4 1x12 0x4 _x40"},
        *("4m", "8m"),
    ),
    fires(
        "LeveretTenantStarved",
        {
            'leveret_tenant_waiting_messages{@,tenant="acme"}': "0x4 30x40",
            'leveret_tenant_last_job_timestamp_seconds{@,tenant="acme"}': "60x44",
            'leveret_tenant_waiting_messages{@,tenant="beta"}': "30x44",
            'leveret_tenant_last_job_timestamp_seconds{@,tenant="beta"}': "0+15x44",
            "leveret_pressed{@}": "0x44",
        },
        "7m",
        "30 messages of tenant acme wait in the workers, and none of its messages was started for at least 2 "
        "min.",
        labels={"tenant": "acme"},
    ),
    silent(
        "LeveretTenantStarved",
        {
            'leveret_tenant_waiting_messages{@,tenant="acme"}': "0x4 30x40",
            'leveret_tenant_last_job_timestamp_seconds{@,tenant="acme"}': "60x44",
            "leveret_pressed{@}": "1x44",
        },
        "7m",
        note="under back-pressure",
    ),
)

QUEUES: Final[tuple[Case, ...]] = (
    fires(
        "LeveretWaitingMuch",
        {"leveret_waiting_bytes{@}": "85x30", "leveret_waiting_limit_bytes{@}": "100x30"},
        "5m",
        "Waiting deliveries take 85% of [limits] waiting_bytes. At 100 % fresh events stay in their lanes.",
    ),
    silent(
        "LeveretWaitingMuch",
        {"leveret_waiting_bytes{@}": "80x30", "leveret_waiting_limit_bytes{@}": "100x30"},
        "5m",
    ),
    Case(
        alert="LeveretQueueOverdue",
        series={
            f'{OVERDUE}{{@,queue="leveret.wait.2000"}}': "0x4 3x40",
            f'{OVERDUE}{{@2,queue="leveret.wait.2000"}}': "0x32 2x20",
            f'{OVERDUE}{{@,queue="leveret.wait.3000"}}': "0x44",
        },
        at=("7m", "10m"),
        text=tuple(
            f"At least {count} messages in leveret.wait.2000 are minutes late. Workers use other queues "
            "meanwhile."
            for count in (3, 5)
        ),
        labels={"queue": "leveret.wait.2000"},
    ),
    silent(
        "LeveretQueueOverdue",
        {f'{OVERDUE}{{@,queue="leveret.wait.2000"}}': "0x4 3x16 0x20"},
        *("60s", "5m", "7m"),
        note="until the broker sends unconfirmed dead letters again",
    ),
)

BROKER: Final[tuple[Case, ...]] = (
    fires(
        "LeveretBrokerAway",
        {"up{%}": "1 0x40"},
        "8m",
        "Prometheus has had nothing from rabbitmq:15692 for 5 minutes.",
        of=Of.BROKER,
    ),
    fires(
        "LeveretBrokerAway",
        {"up{%}": "1 0x200"},
        "15h",
        "Prometheus has had nothing from rabbitmq:15692 for 5 minutes.",
        of=Of.BROKER,
        note="after many hours",
        long=True,
        away=True,
    ),
    silent("LeveretBrokerAway", {"up{%}": "1 0x8 1x40"}, "3m", "8m", note="during a restart"),
    silent(
        "LeveretBrokerAway",
        {'up{job="foreign",instance="mq:15692"}': "0x40"},
        "8m",
        note="for a foreign RabbitMQ, and where ours is not scraped",
    ),
    fires(
        "LeveretBrokerMemory80",
        {MEMORY: "85x30", MEMORY_LIMIT: "100x30"},
        "5m",
        "rabbitmq:15692 uses 85% of its memory limit. At 100 % it blocks publishers.",
        of=Of.BROKER,
    ),
    silent("LeveretBrokerMemory80", {MEMORY: "80x30", MEMORY_LIMIT: "100x30"}, "5m"),
    silent(
        "LeveretBrokerMemory80",
        {
            'rabbitmq_process_resident_memory_bytes{job="foreign",instance="mq:15692"}': "99x30",
            'rabbitmq_resident_memory_limit_bytes{job="foreign",instance="mq:15692"}': "100x30",
        },
        "5m",
        note="for a foreign RabbitMQ",
    ),
    fires(
        "LeveretBrokerMemory90",
        {MEMORY: "95x30", MEMORY_LIMIT: "100x30"},
        "5m",
        "rabbitmq:15692 uses 95% of its memory limit. At 100 % it blocks publishers.",
        of=Of.BROKER,
    ),
    silent("LeveretBrokerMemory90", {MEMORY: "90x30", MEMORY_LIMIT: "100x30"}, "5m"),
    fires(
        "LeveretBrokerDisk",
        {DISK: "1073741824x30", DISK_LIMIT: "1000000000x30"},
        "5m",
        "rabbitmq:15692 has 1GiB left. At its limit it blocks publishers.",
        of=Of.BROKER,
    ),
    silent("LeveretBrokerDisk", {DISK: "1500000000x30", DISK_LIMIT: "1000000000x30"}, "5m"),
    fires(
        "LeveretBrokerHandles",
        {"rabbitmq_process_open_fds{%}": "950x30", "rabbitmq_process_max_fds{%}": "1000x30"},
        "5m",
        "rabbitmq:15692 has 95% of its file handles open; without one it takes no connection.",
        of=Of.BROKER,
    ),
    silent(
        "LeveretBrokerHandles",
        {"rabbitmq_process_open_fds{%}": "900x30", "rabbitmq_process_max_fds{%}": "1000x30"},
        "5m",
    ),
    fires(
        "LeveretDeadLettersStuck",
        {
            "rabbitmq_queue_messages{%}": "48x80",
            "rabbitmq_queue_messages_ready{%}": "10x80",
            "rabbitmq_queue_messages_unacked{%}": "5x80",
        },
        "15m",
        "33 messages are on their way to a dead-letter queue, for 10 minutes. Waits and parked entries may "
        "be among them.",
        of=Of.BROKERS,
    ),
    silent(
        "LeveretDeadLettersStuck",
        {
            "rabbitmq_queue_messages{%}": "47x80",
            "rabbitmq_queue_messages_ready{%}": "10x80",
            "rabbitmq_queue_messages_unacked{%}": "5x80",
        },
        "15m",
    ),
)

CARE: Final = (*ENDPOINTS, *TENANTS, *QUEUES, *BROKER)
