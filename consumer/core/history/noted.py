"""Define the rows of the history as the flow notes them: the two most frequent kinds are short.

Data flow: flow.base.history_notes -> :data:`NotedRow` -> edges.store.history, whose tables have all columns.

A short row contains only the columns in which rows of its kind differ: making and writing it costs less. Its
fields are in the order of the table's columns.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from consumer.core.history.records import HistoryRow, Step, safe_row
from consumer.core.model import OutcomeKind

_RECEIVED: Final = Step.RECEIVED.value
_ATTEMPT: Final = Step.ATTEMPT.value
_OK: Final = OutcomeKind.OK.value


class ReceivedRow(NamedTuple):
    """A worker took an event that some subscriptions want."""

    at: float  #: Unix seconds of its arrival
    event_id: str
    tenant: str
    type: str
    number: int  #: how many subscriptions want it

    def whole(self) -> HistoryRow:
        """Return the row with all columns."""
        return HistoryRow(self.at, _RECEIVED, self.event_id, self.tenant, self.type, "", "", self.number)


class DeliveredRow(NamedTuple):
    """The first attempt of a delivery, which was answered with success."""

    at: float  #: Unix seconds when it began
    event_id: str
    tenant: str
    type: str
    subscription_id: str
    status: int | None
    latency_ms: float
    answer: bytes | None
    answer_type: str  #: escaped, as for :class:`HistoryRow`

    def whole(self) -> HistoryRow:
        """Return the row with all columns."""
        return HistoryRow(
            at=self.at,
            step=_ATTEMPT,
            event_id=self.event_id,
            tenant=self.tenant,
            type=self.type,
            subscription_id=self.subscription_id,
            number=1,
            kind=_OK,
            status=self.status,
            latency_ms=self.latency_ms,
            reason="delivered",
            answer=self.answer,
            answer_type=self.answer_type,
        )


NotedRow: TypeAlias = HistoryRow | ReceivedRow | DeliveredRow


def whole(row: NotedRow) -> HistoryRow:
    """Return *row* with all columns."""
    return row if isinstance(row, HistoryRow) else row.whole()


def safe(row: NotedRow) -> NotedRow:
    """Return *row* with each text printable, as every store takes it; an ordinary row is returned itself."""
    if not isinstance(row, HistoryRow) and f"{row.event_id}{row.tenant}{row.type}".isprintable():
        return row
    return safe_row(whole(row))
