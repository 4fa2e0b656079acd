"""Turn settings into the values that the flow is built with.

Data flow: Settings -> :class:`consumer.flow.base.context.Bounds` -> app hands them to every part of the flow.
"""

from __future__ import annotations

from importlib.metadata import version

from consumer.core.retry.policy import max_age_s
from consumer.edges.broker.prefetch import lane_window
from consumer.flow.base.context import Bounds
from consumer.settings import Settings


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds that the settings ask for."""
    spec = settings.topology_spec()
    return Bounds(
        concurrency=settings.sending.concurrency,
        quick_latency_s=settings.sending.quick_latency_s,
        quick_wait_s=settings.sending.quick_wait_s,
        max_targets_per_message=settings.sending.max_targets_per_message,
        due_hold=settings.due_hold(),
        suspect_after=settings.retry.suspect_after,
        retry_budget=settings.retry.total_budget,
        user_agent=f"leveret/{version('leveret')}",
        parked_ttl_s=spec.parked_ttl_s,
        unknown_age_s=max_age_s(settings.subscription_rules().retry),
        spill_queues=spec.spill_queues,
        lane_window=lane_window(settings),
        in_hand_s=settings.windows.in_hand_s,
        tenant_share=settings.fairness.tenant_share,
        noisy_share=settings.fairness.noisy_share,
        noisy_after_s=settings.fairness.noisy_after_s,
        weight_of=settings.fairness.weight_of,
        limit_of=settings.fairness.limit_of,
        dedicated=frozenset(spec.dedicated),
    )
