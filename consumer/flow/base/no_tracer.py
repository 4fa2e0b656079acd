"""Record no spans: the tracer of a worker whose settings name no collector."""

from __future__ import annotations

from typing import Final

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import Attempt, Outcome, Verdict
from consumer.core.subscription.subscription import Subscription
from consumer.tracing_ports import EventTaken


class NoTracer:
    """Implements :class:`consumer.tracing_ports.Tracer`; callers look at :attr:`is_on` and call nothing."""

    is_on: Final = False

    def taken(self, taken: EventTaken) -> None:
        """Record nothing."""

    def attempted(
        self,
        _message: DeliveryMessage,
        _subscription: Subscription,
        _attempt: Attempt,
        _outcome: Outcome,
        _verdict: Verdict,
    ) -> None:
        """Record nothing."""
