"""Define the ports that take spans and report on them; a part of :mod:`consumer.ports`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import Attempt, Event, Outcome, RawMessage, Verdict
from consumer.core.subscription.subscription import Subscription


class EventResult(StrEnum):
    """The result of one take of an event; a closed set."""

    MATCHED = "matched"  #: its deliveries ended, or the broker has them
    UNMATCHED = "unmatched"  #: no subscription wants it
    DUPLICATE = "duplicate"  #: it is a repeated event, which was not sent again
    HELD = "held"  #: a copy of it is being handled; the event starts again later
    PARKED = "parked"  #: it cannot be published again, which one of its deliveries needs
    GIVEN_BACK = "given_back"  #: the broker gives it out again


class EventTaken(NamedTuple):
    """One take of an event, from its arrival in the worker to its settlement."""

    event: Event
    message: RawMessage
    result: EventResult
    ended_at: float  #: Unix seconds


class Tracer(Protocol):
    """Records spans; beside the deliveries, and never in their way: no method raises or blocks."""

    @property
    def is_on(self) -> bool:
        """Whether spans are recorded; False: no other method need be called."""

    def taken(self, taken: EventTaken) -> None:
        """Record the span of one take of an event."""

    def attempted(
        self,
        message: DeliveryMessage,
        subscription: Subscription,
        attempt: Attempt,
        outcome: Outcome,
        verdict: Verdict,
    ) -> str | None:
        """Record the span of one attempt.

        It is a child of its event's span if *message* is the event itself, without targets. If *message* came
        back from a queue, the span begins a trace of its own and links to the event's span.

        Returns:
            The 32 hex digits of its trace; None if the attempt is not recorded.
        """


class TracingReports(Protocol):
    """Takes what happens to recorded spans."""

    def spans_exported(self, count: int) -> None:
        """The collector has so many further spans."""

    def spans_dropped(self, reason: str, count: int) -> None:
        """So many spans were dropped: full | refused | stopped."""

    def export_failed(self, detail: str) -> None:
        """The collector takes no spans; they wait."""

    def export_worked(self) -> None:
        """The collector took spans, perhaps again."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""
