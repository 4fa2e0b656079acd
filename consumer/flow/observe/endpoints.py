"""Report the state of endpoints: breakers, disabled ones. Part of the Observer."""

from __future__ import annotations

from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.reporter import Reporter


class EndpointReporter(Reporter):
    """What becomes of endpoints."""

    def endpoint_met(self, state: str) -> None:
        """An endpoint is known from now on, whose breaker is in *state*."""
        self._series.breakers.labels(state).inc()

    def endpoint_left(self, state: str) -> None:
        """An endpoint is known no more; its breaker was in *state*."""
        self._series.breakers.labels(state).dec()

    def breaker_changed(self, subscription: Subscription, before: str, after: str) -> None:
        """A breaker changed its state."""
        self._series.breakers.labels(before).dec()
        self._series.breakers.labels(after).inc()
        if after == "open":
            self._series.breaker_openings.inc()
        self._log.warning(
            "breaker.changed",
            tenant=subscription.tenant,
            subscription_id=subscription.id,
            before=before,
            after=after,
        )

    def endpoint_disabled(self, subscription: Subscription, reason: str) -> None:
        """An endpoint said that it is gone, or was switched off."""
        self._log.error(
            "endpoint.disabled", tenant=subscription.tenant, subscription_id=subscription.id, reason=reason
        )
        self._note(OperatorEventType.ENDPOINT_DISABLED, subscription, reason)

    def endpoint_recovered(self, subscription: Subscription) -> None:
        """An endpoint that was disabled is enabled again."""
        self._log.info("endpoint.recovered", tenant=subscription.tenant, subscription_id=subscription.id)
        self._note(OperatorEventType.ENDPOINT_RECOVERED, subscription, "enabled again")

    def breaker_decided(self, subscription: Subscription, after: str, reason: str) -> None:
        """This worker opened or closed a breaker; what it took over from others is told by them."""
        if after == "open":
            self._note(OperatorEventType.BREAKER_OPENED, subscription, reason)
        elif after == "closed":
            self._note(OperatorEventType.BREAKER_CLOSED, subscription, reason)

    def _note(self, kind: OperatorEventType, subscription: Subscription, reason: str) -> None:
        self.notes.notify(Note(type=kind, tenant=subscription.tenant, subject=subscription.id, reason=reason))
