"""Turn each finished step of a delivery into a row of the history.

Data flow: flow -> :class:`HistoryNotes` -> :class:`consumer.ports.History`. This is on the path of every
request: a row costs about 1 µs, and with ``keep = off`` each call returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from consumer.core.history.records import ANSWER_BYTES, DETAIL_MAX, HistoryRow, Keep, Step
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import delivery_id
from consumer.core.message.records import ParkedRow
from consumer.core.model import Defer, Delivered, Drop, Event, Park, Retry, Verdict
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import printable
from consumer.flow.observe.delivery import Attempted
from consumer.ports import History

LONG_WAIT_S: Final = 600.0
"""A delivery that is deferred again is noted again only for a wait of this length: rows stay few."""


class HistoryNotes:
    """Notes steps; without a history it does nothing."""

    def __init__(
        self,
        history: History | None,
        now: Callable[[], float],
        *,
        keep: Keep = Keep.ALL,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """Bind to a history.

        Args:
            history: Takes the rows; None if none are kept.
            now: Returns Unix seconds.
            keep: Which deliveries are kept.
            answer_bytes: Bytes that are kept of an answer; 0 keeps neither answers nor content types.
        """
        self._history = None if keep is Keep.OFF else history
        self._now = now
        self._all = keep is Keep.ALL
        self._answer_bytes = answer_bytes

    def received(self, event: Event, matched: int) -> None:
        """A worker took an event; *matched* is the number of subscriptions that want it, perhaps 0."""
        if self._history is None or not self._all:
            return
        if matched:
            self._history.note_arrival(event, matched)
        else:
            at, ids = event.arrived_at, (event.id, event.tenant, event.type)
            self._history.note(HistoryRow(at, Step.UNMATCHED.value, *ids))

    def settled(self, event: Event) -> None:
        """Nothing is owed for the event's message any more: call it only after the ack."""
        if self._history is not None:
            step = Step.SETTLED.value
            self._history.note(HistoryRow(self._now(), step, event.id, event.tenant, event.type))

    def attempted(self, done: Attempted) -> None:
        """An attempt has ended."""
        history, attempt, outcome, kept = self._history, done.attempt, done.outcome, self._answer_bytes
        is_usual = attempt.number == 1 and type(done.verdict) is Delivered
        if history is None or (is_usual and not self._all):
            return
        event, target = done.event, done.subscription.id
        answer = outcome.body[:kept] if kept and outcome.status is not None else None
        answer_type = outcome.content_type if kept else ""
        if is_usual:
            history.note_delivery(event, target, attempt, answer, answer_type)
            return
        reason, wait_ms = _of(done.verdict, attempt.at + attempt.duration_s)
        history.note(
            HistoryRow(
                attempt.at,
                Step.ATTEMPT.value,
                event.id,
                event.tenant,
                event.type,
                target,
                delivery_id(event.id, target),
                attempt.number,
                outcome.kind.value,
                outcome.status,
                attempt.duration_s * 1000,
                wait_ms,
                reason,
                "" if reason == "delivered" else outcome.detail[:DETAIL_MAX],
                answer,
                answer_type,
            )
        )

    def deferred(
        self, message: DeliveryMessage, subscription: Subscription, reason: str, wait_s: float
    ) -> None:
        """A delivery message was made for a target that may not be sent now; no attempt is spent."""
        if self._history is None or (message.held and wait_s < LONG_WAIT_S):
            return
        wait_ms = wait_s * 1000
        self._history.note(
            self._row(Step.DEFERRED, message.event, subscription.id, wait_ms=wait_ms, reason=reason)
        )

    def parked(self, parked: ParkedRow) -> None:
        """An entry was parked."""
        if self._history is None:
            return
        for target in parked.subscription_ids or ("",):
            self._history.note(
                HistoryRow(
                    at=parked.parked_at,
                    step=Step.PARKED.value,
                    event_id=parked.event_id or "",
                    tenant=parked.tenant or "",
                    type=parked.type or "",
                    subscription_id=target,
                    delivery_id=delivery_id(parked.event_id or "", target) if target else "",
                    number=parked.attempts,
                    reason=parked.reason,
                    detail=parked.detail[:DETAIL_MAX],
                )
            )

    def cancelled(self, event: Event, target: str, detail: str) -> None:
        """Nothing more is owed to *target*."""
        if self._history is not None:
            shown = printable(detail)[:DETAIL_MAX]
            self._history.note(self._row(Step.CANCELLED, event, target, detail=shown))

    def replayed(self, message: DeliveryMessage, age_s: float | None) -> None:
        """A parked delivery is on its way again; *age_s* is how long it was parked, if that is known."""
        if self._history is None:
            return
        wait_ms = None if age_s is None else age_s * 1000
        for target in message.targets:
            self._history.note(self._row(Step.REPLAYED, message.event, target, wait_ms=wait_ms))

    def _row(self, step: Step, event: Event, target: str, **more: Any) -> HistoryRow:
        """Return a row of now; *more* are further fields."""
        ids = event.id, event.tenant, event.type, target, delivery_id(event.id, target)
        return HistoryRow(self._now(), step.value, *ids, **more)


def _of(verdict: Verdict, ended_at: float) -> tuple[str, float | None]:
    """Return the name of a verdict, and its wait in milliseconds."""
    match verdict:
        case Delivered():
            return "delivered", None
        case Retry(wait_s=wait_s):
            return "retry", wait_s * 1000
        case Defer(until=until):
            return "defer", max(until - ended_at, 0.0) * 1000
        case Park():
            return "park", None
        case Drop():
            return "drop", None
