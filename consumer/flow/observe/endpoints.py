"""Report the state of endpoints: breakers, disabled ones. Part of the Observer."""

from __future__ import annotations

from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.by_name.troubles import Troubles
from consumer.flow.observe.reporter import Reporter, about


class EndpointReporter(Reporter):
    """Reports on endpoints."""

    troubles: Troubles  #: made by another part of the Observer

    def endpoint_met(self, subscription: Subscription, state: str, since: float) -> None:
        """Count an endpoint that this worker meets.

        Args:
            subscription: Whose endpoint it is.
            state: Of its breaker.
            since: When the breaker came into that state, as far as is known; Unix seconds.
        """
        self._series.breakers.labels(state).inc()
        self.troubles.breaker_changed(subscription.id, state, since)

    def endpoint_left(self, subscription: Subscription, state: str) -> None:
        """Count an endpoint no longer; its breaker was in *state*."""
        self._series.breakers.labels(state).dec()
        self.troubles.ajar.pop(subscription.id, None)

    def breaker_changed(self, subscription: Subscription, before: str, after: str, now: float) -> None:
        """Report that a breaker changed its state, at *now* (Unix seconds)."""
        self._series.breakers.labels(before).dec()
        self._series.breakers.labels(after).inc()
        self.troubles.breaker_changed(subscription.id, after, now)
        if after == "open":
            self._series.breaker_openings.inc()
        self._log.warning("breaker.changed", **about(subscription), before=before, after=after)

    def deliveries_leave(self, subscription: str) -> None:
        """Take that an operator begins to kick the waiting deliveries of a subscription, given by its id."""
        self.troubles.book.leaves(subscription)

    def deliveries_left(self, subscription: str, deliveries: int, *, all_left: bool) -> None:
        """Count kicked or cancelled deliveries as waiting no longer.

        Args:
            subscription: Its id.
            deliveries: How many of them this worker had stored.
            all_left: Whether all of them that waited as the operator began have left.
        """
        self.troubles.book.left(subscription, deliveries, all_left=all_left)

    def endpoint_disabled(self, subscription: Subscription, reason: str) -> None:
        """Report that a subscription was disabled."""
        self.troubles.book.disable(subscription.id)
        self._log.error("endpoint.disabled", **about(subscription), reason=reason)
        self._note(OperatorEventType.ENDPOINT_DISABLED, subscription, reason)

    def endpoint_recovered(self, subscription: Subscription) -> None:
        """Report that a disabled subscription is enabled again."""
        self._log.info("endpoint.recovered", **about(subscription))
        self._note(OperatorEventType.ENDPOINT_RECOVERED, subscription, "enabled again")

    def breaker_decided(self, subscription: Subscription, after: str, reason: str) -> None:
        """Note for operators that this worker opened or closed a breaker; others note their own changes."""
        if after == "open":
            self._note(OperatorEventType.BREAKER_OPENED, subscription, reason)
        elif after == "closed":
            self._note(OperatorEventType.BREAKER_CLOSED, subscription, reason)

    def _note(self, kind: OperatorEventType, subscription: Subscription, reason: str) -> None:
        self.notes.notify(Note(type=kind, tenant=subscription.tenant, subject=subscription.id, reason=reason))
