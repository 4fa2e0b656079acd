"""Cases of the rules on workers, certificates and the store."""

from __future__ import annotations

from typing import Final

from grafana.alerts.case import Case, Of, fires, silent

DAY_S: Final = 86400

ALIVE: Final[tuple[Case, ...]] = (
    fires(
        "LeveretAway",
        {"up{@}": "1 0x30", "up{@2}": "1 0x30"},
        "5m",
        "Prometheus has had no metrics from any worker for 3 minutes. Published events wait on the broker; "
        "nothing is lost. `systemctl status leveret` or `docker compose ps` shows whether it lives.",
    ),
    silent("LeveretAway", {"up{@}": "1 0x30", "up{@2}": "1x30"}, "5m", note="while one worker answers"),
    silent("LeveretAway", {"up{@}": "1 0x8 1x30"}, "2m30s", "6m", note="during a restart"),
    fires(
        "LeveretWorkerAway",
        {"up{@}": "1 0x40", "up{@2}": "1x40"},
        "8m",
        "Prometheus has had no metrics from w1:8080 for 5 minutes. Other workers take over its messages.",
        of=Of.WORKER,
    ),
    silent("LeveretWorkerAway", {"up{@}": "1 0x8 1x30", "up{@2}": "1x40"}, "3m", "8m"),
    fires(
        "LeveretNotReady",
        {"leveret_ready{@}": "1 0x30", "leveret_ready{@2}": "1 0x30"},
        "5m",
        "The workers live and deliver nothing. /readyz of each contains the reason.",
    ),
    silent("LeveretNotReady", {"leveret_ready{@}": "1 0x30", "leveret_ready{@2}": "1x30"}, "5m"),
    silent("LeveretNotReady", {"leveret_ready{@}": "1 0x8 1x30"}, "2m", "6m", note="during a restart"),
    fires(
        "LeveretWorkerNotReady",
        {"leveret_ready{@}": "1 0x40", "leveret_ready{@2}": "1x40"},
        "8m",
        "w1:8080 lives and delivers nothing. Its /readyz contains the reason.",
        of=Of.WORKER,
    ),
    silent("LeveretWorkerNotReady", {"leveret_ready{@}": "1x4 0x16 1x20"}, "5m", "8m"),
    fires(
        "LeveretBlocked",
        {"leveret_pressed{@}": "0 1x30", "leveret_pressed{@2}": "0 1x30"},
        "5m",
        "The workers start no new attempt: the broker blocks them, is slow to confirm, or is away.",
    ),
    silent("LeveretBlocked", {"leveret_pressed{@}": "0x4 1x8 0x30"}, "3m", "6m"),
    fires(
        "LeveretQueueStuck",
        {"leveret_stuck_queues{@}": "0 2x30", "leveret_stuck_queues{@2}": "0x30"},
        "5m",
        "A worker has no confirm from 2 queues. Deliveries that need one of them wait or take another one; "
        "the log event queue.stuck names it.",
    ),
    silent("LeveretQueueStuck", {"leveret_stuck_queues{@}": "0x4 1x8 0x30"}, "3m", "6m"),
    fires(
        "LeveretConnectionsRejected",
        {
            'leveret_connect_failures_total{@,connection="publish"}': "0x4 1+1x40",
            "leveret_ready{@}": "1x4 0x40",
        },
        "9m",
        "w1:8080 has failed to connect to any broker of its list for 5 minutes.",
        of=Of.ONE_WORKER,
    ),
    silent(
        "LeveretConnectionsRejected",
        {
            'leveret_connect_failures_total{@,connection="publish"}': "0x4 1+1x5 6x40",
            "leveret_ready{@}": "1x4 0x50",
        },
        *("3m", "5m", "8m"),
        note="while the broker restarts",
    ),
    silent(
        "LeveretConnectionsRejected",
        {
            'leveret_connect_failures_total{@,connection="publish"}': "0x4 1+1x3 4x4 5+1x3 8x4 9+1x3 12x30",
            "leveret_ready{@}": "1x4 0x4 1x4 0x4 1x4 0x4 1x30",
            "leveret_ready{@2}": "0x50",
        },
        *("5m", "7m", "9m"),
        note="while one node after the other restarts",
    ),
    fires(
        "LeveretTaskEnded",
        {
            'leveret_task_failures_total{@,task="control"}': "0x8 40x40",
            'leveret_task_failures_total{@,task="sizes"}': "0x48",
        },
        "5m",
        "The task control of w1:8080 failed 40 times in 10 minutes. The log event task.failed has the error.",
        of=Of.ONE_WORKER,
        labels={"task": "control"},
    ),
    silent("LeveretTaskEnded", {'leveret_task_failures_total{@,task="control"}': "7x48"}, "5m"),
    fires(
        "LeveretSpansDropped",
        {
            'leveret_spans_total{@,result="exported"}': "0+100x60",
            'leveret_spans_total{@,result="full"}': "0x4 10+10x60",
            'leveret_spans_total{@,result="refused"}': "0x4 5+5x60",
        },
        "11m",
        "w1:8080 has dropped spans for 5 minutes, 300 in the last 5. It delivers as usual, but traces have "
        "gaps. The log event tracing.failed has the reason.",
        of=Of.ONE_WORKER,
    ),
    silent(
        "LeveretSpansDropped",
        {
            'leveret_spans_total{@,result="exported"}': "0+100x60",
            'leveret_spans_total{@,result="full"}': "0x8 40x60",
            'leveret_spans_total{@,result="stopped"}': "0+10x60",
        },
        *("4m", "7m", "11m"),
        note="after a short trouble of the collector, and for those left at the end of a worker",
    ),
    fires(
        "LeveretTopologyDiffers",
        {'leveret_topology_findings{@,severity="error"}': "0 1x40"},
        "7m",
        "w1:8080 found 1 errors of `leveret topology check`, such as too few file handles for the quorum "
        "queues.",
        of=Of.WORKER,
    ),
    silent(
        "LeveretTopologyDiffers",
        {
            'leveret_topology_findings{@,severity="error"}': "1x4 0x30",
            'leveret_topology_findings{@,severity="warning"}': "2x40",
        },
        "7m",
    ),
)

ENDINGS: Final[tuple[Case, ...]] = (
    fires(
        "LeveretCertificateExpires",
        {'leveret_certificate_expiry_timestamp_seconds{@,certificate="api"}': f"{14 * DAY_S}x40"},
        "7m",
        "The certificate api expires in 13d 23h 53m 0s.",
        labels={"certificate": "api"},
    ),
    silent(
        "LeveretCertificateExpires",
        {
            'leveret_certificate_expiry_timestamp_seconds{@,certificate="api"}': f"{15 * DAY_S}x40",
            'leveret_certificate_expiry_timestamp_seconds{@,certificate="proxy"}': "0x40",
        },
        "7m",
    ),
    fires(
        "LeveretCertificateLastDay",
        {'leveret_certificate_expiry_timestamp_seconds{@,certificate="broker_client"}': "7620x40"},
        "7m",
        "The certificate broker_client expires in 2h 0m 0s. Connections that need it fail from then on.",
        labels={"certificate": "broker_client"},
    ),
    silent(
        "LeveretCertificateLastDay",
        {'leveret_certificate_expiry_timestamp_seconds{@,certificate="api"}': f"{2 * DAY_S}x40"},
        "7m",
    ),
    fires(
        "LeveretSecretEnds",
        {"leveret_secret_expiry_timestamp_seconds{@}": "4020x40"},
        "7m",
        "In 1h 0m 0s Leveret stops signing with the older secret. A receiver that still verifies with it "
        "alone refuses every webhook from then on.",
    ),
    silent("LeveretSecretEnds", {"leveret_secret_expiry_timestamp_seconds{@}": "80000x20 0x20"}, "4m", "8m"),
)

STORE: Final[tuple[Case, ...]] = (
    fires(
        "LeveretStoreAway",
        {"leveret_store_up{@}": "1 0x40"},
        "8m",
        "w1:8080 continues with the subscriptions in its memory and does not see changes. A worker that "
        "starts now is not ready.",
        of=Of.WORKER,
    ),
    silent("LeveretStoreAway", {"leveret_store_up{@}": "1x4 0x12 1x20"}, "4m", "8m"),
    fires(
        "LeveretStoreDoubted",
        {"leveret_store_trusted{@}": "1 0x20"},
        "3m",
        "w1:8080 has an empty, foreign or older store, or its store is gone. It cancels nothing, and "
        "delivers only if it has the right store in memory.",
        of=Of.WORKER,
    ),
    silent("LeveretStoreDoubted", {"leveret_store_trusted{@}": "1x4 0x2 1x20"}, "90s", "3m"),
    fires(
        "LeveretHistoryGaps",
        {'leveret_history_dropped_total{@,reason="full"}': "0x8 3x40"},
        "4m",
        "w1:8080 delivers as usual, but its history does not contain every attempt.",
        of=Of.ONE_WORKER,
    ),
    silent("LeveretHistoryGaps", {'leveret_history_dropped_total{@,reason="full"}': "3x80"}, "4m", "15m"),
    fires(
        "LeveretLocked",
        {"leveret_subscriptions_locked{@}": "0 3x20"},
        "3m",
        "3 subscriptions are locked on w1:8080: Leveret sends nothing to them and parks their deliveries.",
        of=Of.WORKER,
    ),
    silent("LeveretLocked", {"leveret_subscriptions_locked{@}": "0x20"}, "3m"),
)

WORKERS: Final = (*ALIVE, *ENDINGS, *STORE)
