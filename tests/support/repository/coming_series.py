"""Series that alerts and the runbook name already, and that no worker has yet.

Remove this file once ``metrics/series.py`` has all of them.
"""

from __future__ import annotations

from typing import Final

COMING: Final = frozenset(
    (
        "leveret_breaker_oldest_open_timestamp_seconds",
        "leveret_certificate_expiry_timestamp_seconds",
        "leveret_secret_expiry_timestamp_seconds",
        "leveret_subscription_attempts_total",
        "leveret_subscription_breaker",
        "leveret_subscription_latency_seconds",
        "leveret_subscription_trouble",
        "leveret_subscription_waiting_deliveries",
        "leveret_subscriptions_disabled",
        "leveret_targets_ended_total",
        "leveret_targets_in_flight",
        "leveret_targets_interrupted_total",
        "leveret_targets_owed_total",
        "leveret_targets_waiting",
    )
)
