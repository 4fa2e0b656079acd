"""Rules on the workers: alive, ready, connected, with a good store, with valid certificates.

One worker that restarts raises no critical alert: those ask whether any worker of an installation does its
work, and wait for longer than a restart takes.
"""

from __future__ import annotations

from typing import Final

from consumer.core.tools.alerts.model import Alert, Group, Severity

_ALIVE: Final = (
    Alert(
        name="LeveretAway",
        expr="sum by (@) (up{@}) == 0 or absent(up{@})",
        hold="3m",
        severity=Severity.CRITICAL,
        summary="Leveret does not answer.",
        description="Prometheus has had no metrics from any worker for 3 minutes. Published events wait on "
        "the broker; nothing is lost. `systemctl status leveret` or `docker compose ps` shows whether it "
        "lives.",
        section="the-daemon-does-not-answer",
    ),
    Alert(
        name="LeveretWorkerAway",
        expr="up{@} == 0",
        hold="5m",
        summary="A Leveret worker does not answer.",
        description="Prometheus has had no metrics from {{ $labels.instance }} for 5 minutes. Other workers "
        "take over its messages.",
        section="the-daemon-does-not-answer",
    ),
    Alert(
        name="LeveretNotReady",
        expr="max by (@) (leveret_ready{@}) == 0",
        hold="3m",
        severity=Severity.CRITICAL,
        summary="No Leveret worker is ready.",
        description="The workers live and deliver nothing. /readyz of each contains the reason.",
        section="nothing-is-sent-readyz-is-red",
    ),
    Alert(
        name="LeveretWorkerNotReady",
        expr="leveret_ready{@} == 0",
        hold="5m",
        summary="A Leveret worker is not ready.",
        description="{{ $labels.instance }} lives and delivers nothing. Its /readyz contains the reason.",
        section="nothing-is-sent-readyz-is-red",
    ),
    Alert(
        name="LeveretBlocked",
        expr="min by (@) (leveret_pressed{@}) == 1",
        hold="3m",
        severity=Severity.CRITICAL,
        summary="The broker accepts nothing from Leveret.",
        description="The workers start no new attempt: the broker blocks them, is slow to confirm, or is "
        "away.",
        section="nothing-is-sent-readyz-is-red",
    ),
    Alert(
        name="LeveretQueueStuck",
        expr="max by (@) (leveret_stuck_queues{@}) > 0",
        hold="3m",
        severity=Severity.CRITICAL,
        summary="A queue confirms nothing to Leveret.",
        description="A worker has no confirm from {{ $value }} queues. Deliveries that need one of them wait "
        "or take another one; the log event queue.stuck names it.",
        section="a-queue-confirms-nothing",
    ),
    Alert(
        name="LeveretConnectionsRejected",
        expr="sum by (@, instance) (increase(leveret_connect_failures_total{@}[3m])) > 0 "
        "and on (@, instance) max by (@, instance) (leveret_ready{@}) == 0",
        hold="5m",
        summary="The broker rejects connections.",
        description="{{ $labels.instance }} has failed to connect to any broker of its list for 5 minutes.",
        section="the-broker-refuses-connections",
    ),
    Alert(
        name="LeveretTaskEnded",
        expr="sum by (@, instance, task) (increase(leveret_task_failures_total{@}[10m])) > 0",
        hold="1m",
        summary="A task of a Leveret worker ended unexpectedly.",
        description="The task {{ $labels.task }} of {{ $labels.instance }} failed {{ $value | humanize }} "
        "times in 10 minutes. The log event task.failed has the error.",
        section="a-task-ended-unexpectedly",
    ),
    Alert(
        name="LeveretSpansDropped",
        expr='sum by (@, instance) (increase(leveret_spans_total{@,result=~"full|refused"}[5m])) > 0',
        hold="5m",
        summary="Spans of traces are dropped.",
        description="{{ $labels.instance }} has dropped spans for 5 minutes, {{ $value | humanize }} in the "
        "last 5. It delivers as usual, but traces have gaps. The log event tracing.failed has the reason.",
        section="spans-are-dropped",
    ),
    Alert(
        name="LeveretTopologyDiffers",
        expr='leveret_topology_findings{@,severity="error"} > 0',
        hold="5m",
        summary="The broker differs from what Leveret needs.",
        description="{{ $labels.instance }} found {{ $value }} errors of `leveret topology check`, such as "
        "too few file handles for the quorum queues.",
        section="the-broker-differs-from-the-plan",
    ),
)

_ENDINGS: Final = (
    Alert(
        name="LeveretCertificateExpires",
        expr="min by (@, certificate) (leveret_certificate_expiry_timestamp_seconds{@} > 0) - time() "
        "< <certificate_s>",
        hold="5m",
        summary="A certificate of Leveret expires soon.",
        description="The certificate {{ $labels.certificate }} expires in {{ $value | humanizeDuration }}.",
        section="a-certificate-or-a-secret-is-about-to-expire",
    ),
    Alert(
        name="LeveretCertificateLastDay",
        expr="min by (@, certificate) (leveret_certificate_expiry_timestamp_seconds{@} > 0) - time() < 86400",
        hold="5m",
        severity=Severity.CRITICAL,
        summary="A certificate of Leveret expires within a day.",
        description="The certificate {{ $labels.certificate }} expires in {{ $value | humanizeDuration }}. "
        "Connections that need it fail from then on.",
        section="a-certificate-or-a-secret-is-about-to-expire",
    ),
    Alert(
        name="LeveretSecretEnds",
        expr="min by (@) (leveret_secret_expiry_timestamp_seconds{@} > 0) - time() < <secret_s>",
        hold="5m",
        summary="A replaced secret of a subscription ends soon.",
        description="In {{ $value | humanizeDuration }} Leveret stops signing with the older secret. A "
        "receiver that still verifies with it alone refuses every webhook from then on.",
        section="a-certificate-or-a-secret-is-about-to-expire",
    ),
)

_STORE: Final = (
    Alert(
        name="LeveretStoreAway",
        expr="leveret_store_up{@} == 0",
        hold="5m",
        summary="The store cannot be read or written.",
        description="{{ $labels.instance }} continues with the subscriptions in its memory and does not see "
        "changes. A worker that starts now is not ready.",
        section="the-store-is-away-or-damaged",
    ),
    Alert(
        name="LeveretStoreDoubted",
        expr="leveret_store_trusted{@} == 0",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="The store is not the one that the broker's messages were made with.",
        description="{{ $labels.instance }} has an empty, foreign or older store, or its store is gone. It "
        "cancels nothing, and delivers only if it has the right store in memory.",
        section="the-store-is-not-the-right-one",
    ),
    Alert(
        name="LeveretHistoryGaps",
        expr="sum by (@, instance) (increase(leveret_history_dropped_total{@}[10m])) > 0",
        hold="1m",
        summary="Rows of the history were not recorded.",
        description="{{ $labels.instance }} delivers as usual, but its history does not contain every "
        "attempt.",
        section="the-history-has-gaps",
    ),
    Alert(
        name="LeveretLocked",
        expr="leveret_subscriptions_locked{@} > 0",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="Secrets of subscriptions cannot be decrypted.",
        description="{{ $value }} subscriptions are locked on {{ $labels.instance }}: Leveret sends nothing "
        "to them and parks their deliveries.",
        section="the-store-is-away-or-damaged",
    ),
)

WORKERS: Final = (
    Group("leveret-workers", _ALIVE),
    Group("leveret-endings", _ENDINGS, interval="1m"),
    Group("leveret-store", _STORE),
)
