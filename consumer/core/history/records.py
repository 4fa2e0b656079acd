"""Define one row of the history, and a query for rows.

Data flow: flow.base.history_notes -> :class:`.batch.HistoryBatch` -> edges.history
-> :class:`StoredStep`.

Each attempt has one row, whose *reason* is its verdict. A delivered attempt is also the end of its delivery,
so that end has no further row. Each other end has a row of its own: parked or cancelled. The row of a first
attempt that delivered may include the arrival of its event, see :func:`parted`.

A ``settled`` row proves that nothing is owed for an event's message any more. A worker notes it after the
fan-out, once it has acked the event: each delivery has ended, or the broker has confirmed its delivery
message. If the ack is lost, the broker gives the event out again, and that copy owes nothing. A ``received``
row and the row of an attempt are no proof: a worker may be killed before the broker has confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from consumer.core.errors import ConfigError
from consumer.core.text.printable import printable

ANSWER_BYTES: Final = 512  #: default number of bytes that a row keeps of an answer
DETAIL_MAX: Final = 200  #: characters that a row keeps of a detail
LIMIT_MAX: Final = 100_000  #: most rows that one query returns


class Keep(StrEnum):
    """Which deliveries the history keeps."""

    OFF = "off"
    FAILURES = "failures"  #: attempts that failed, later attempts of their deliveries, and other ends
    ALL = "all"


class Step(StrEnum):
    """The kind of a row."""

    RECEIVED = "received"  #: a worker took the event; *number* is the number of matched subscriptions
    UNMATCHED = "unmatched"  #: a worker took the event, and no subscription wants it
    SETTLED = "settled"  #: the event's message is acked, see above; only with a window for repeated events
    ATTEMPT = "attempt"  #: one HTTP request; *reason* is the verdict, *wait_ms* the chosen wait, see `parted`
    DEFERRED = "deferred"  #: no attempt was made; *reason* is why, *wait_ms* is how long it waits
    PARKED = "parked"  #: an end; *reason* is the ParkReason
    CANCELLED = "cancelled"  #: an end: the subscription was deleted, or one of its rules ended the delivery
    REPLAYED = "replayed"  #: the parked delivery is on its way again; *wait_ms* is how long it was parked


class HistoryRow(NamedTuple):
    """One step. The fields are in the order of the table's columns."""

    at: float  #: Unix seconds; of an attempt: when it began
    step: str  #: a :class:`Step`
    event_id: str
    tenant: str = ""  #: empty for a message that never became an event
    type: str = ""
    subscription_id: str = ""  #: empty for steps of the whole event
    delivery_id: str = ""  #: empty for steps of the whole event, and for a first attempt that delivered
    number: int = 0  #: of the attempt, 1-based; received: matched subscriptions; parked: attempts made
    kind: str = ""  #: of the attempt: a :class:`consumer.core.model.OutcomeKind`
    status: int | None = None  #: HTTP status of the attempt; None when no response arrived
    latency_ms: float | None = None  #: duration of the attempt
    wait_ms: float | None = None  #: see :class:`Step` and :func:`parted`
    reason: str = (
        ""  #: verdict of an attempt: delivered | retry | defer | park | drop; else see :class:`Step`
    )
    detail: str = ""  #: error or reason in words, with unprintable characters escaped
    answer: bytes | None = None  #: start of the response body, as received: escape it wherever it is shown
    answer_type: str = ""  #: content type of the answer, with unprintable characters escaped


class StoredStep(NamedTuple):
    """A row of the store."""

    seq: int  #: ascends with the time of writing; unique in one store
    row: HistoryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which rows to read. All conditions must hold; an empty text sets no condition.

    Without *after* the newest matching rows are returned, with it the first ones after it. The result is
    always in ascending order of *seq*. Rows may be written in another order than they happened: those of two
    workers, and the steps of whole events, which come first in a batch. So a timeline is sorted by *at*.
    """

    event_id: str = ""
    delivery_id: str = ""
    subscription_id: str = ""
    tenant: str = ""
    failed_only: bool = False  #: attempts that were not delivered, and parked deliveries
    since: float = 0.0  #: Unix seconds; rows of before are left out
    until: float = 0.0  #: Unix seconds; rows of then or later are left out; 0 sets no condition
    limit: int = 1_000  #: most rows
    after: int | None = None  #: only rows with a larger *seq*
    before: int | None = None  #: only rows with a smaller *seq*
    seqs: tuple[int, ...] = ()  #: only the rows with these numbers; empty: any
    light: bool = False  #: without details and answers
    event_ids: Sequence[str] = ()  #: only rows of one of these events
    subscription_ids: Sequence[str] = ()  #: only of these subscriptions; at most 100 without *event_ids*

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= LIMIT_MAX:
            raise ConfigError(f"limit: {self.limit} is not a number from 1 to {LIMIT_MAX}")


def safe_row(row: HistoryRow) -> HistoryRow:
    """Return *row* with each text printable, as every store takes it; an ordinary row is returned itself."""
    ids = f"{row.event_id}{row.tenant}{row.type}{row.subscription_id}{row.delivery_id}"
    if f"{ids}{row.reason}{row.detail}{row.answer_type}".isprintable():
        return row
    return row._replace(
        event_id=printable(row.event_id),
        tenant=printable(row.tenant),
        type=printable(row.type),
        subscription_id=printable(row.subscription_id),
        delivery_id=printable(row.delivery_id),
        reason=printable(row.reason),
        detail=printable(row.detail)[:DETAIL_MAX],
        answer_type=printable(row.answer_type),
    )


def parted(rows: Iterable[HistoryRow]) -> Iterator[HistoryRow]:
    """Yield *rows*; an attempt that includes the arrival of its event comes as two steps.

    It is a delivered attempt with a *wait_ms*: the time since the arrival. The event had one subscription.
    """
    for row in rows:
        if row.wait_ms is None or row.reason != "delivered":
            yield row
            continue
        at = row.at - row.wait_ms / 1000
        yield HistoryRow(at, Step.RECEIVED.value, row.event_id, row.tenant, row.type, number=1)
        yield row._replace(wait_ms=None)


def chosen_wait_s(row: HistoryRow) -> float | None:
    """Return the seconds that were to pass after this step."""
    return None if row.wait_ms is None or row.reason == "delivered" else row.wait_ms / 1000


def is_failure(row: HistoryRow) -> bool:
    """Return whether *row* is an attempt that was not delivered, or a parked delivery."""
    return row.step == Step.PARKED or (row.step == Step.ATTEMPT and row.reason != "delivered")
