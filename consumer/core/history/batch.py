"""Gather rows of the history until a store writes them.

Data flow: edges.history.history_writer -> :class:`HistoryBatch` -> a store.

The most frequent event has one subscription, which gets it at the first attempt. Its two steps, arrival and
attempt, become one row if they meet in one batch; :func:`.records.parted` makes two of it again. The values
of such rows are in one list: Python's collector would visit each row that is an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from consumer.core.history.records import HistoryRow, Step, safe_row
from consumer.core.model import Attempt, Event, OutcomeKind

_RECEIVED: Final = Step.RECEIVED.value
_ATTEMPT: Final = Step.ATTEMPT.value
_OK: Final = OutcomeKind.OK.value


class DeliveredRow(NamedTuple):
    """The first attempt of a delivery, which was answered with success.

    It contains only the columns in which such rows differ, in the order of the table.
    """

    at: float  #: Unix seconds when it began
    event_id: str
    tenant: str
    type: str
    subscription_id: str
    status: int | None
    latency_ms: float
    wait_ms: float | None  #: since the arrival of the event, if the row includes it
    answer: bytes | None
    answer_type: str

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
            wait_ms=self.wait_ms,
            reason="delivered",
            answer=self.answer,
            answer_type=self.answer_type,
        )


FIELDS: Final = len(DeliveredRow._fields)


def delivered_rows(values: Sequence[Any]) -> Iterator[HistoryRow]:
    """Yield the rows with these values, :data:`FIELDS` for each."""
    for start in range(0, len(values), FIELDS):
        yield DeliveredRow(*values[start : start + FIELDS]).whole()


def received_row(event: Event, matched: int) -> HistoryRow:
    """Return the row of an event's arrival; *matched* is the number of subscriptions that want it."""
    at, ids = event.arrived_at, (event.id, event.tenant, event.type)
    return HistoryRow(at, _RECEIVED, *ids, number=matched)


class Run(NamedTuple):
    """Rows that follow each other."""

    delivered: Sequence[Any]  #: values of first attempts that delivered, :data:`FIELDS` for each
    others: Sequence[HistoryRow]  #: the rows after them


class HistoryBatch:
    """Rows of one transaction. It iterates over them in the order to write, each with all columns.

    Steps of whole events come first. The steps of deliveries keep their order, by which readers know the last
    one of each delivery.
    """

    def __init__(self, rows: Iterable[HistoryRow] = ()) -> None:
        """Begin with *rows* in their order."""
        self._received: dict[str, tuple[float, str, str]] = {}  #: time, tenant and type by event
        self._of_events: list[HistoryRow] = []
        self._delivered: list[Any] = []  #: values of first attempts that delivered
        self._others = list(rows)
        self._places = [0] * len(self._others)  #: for each of the others: the number of values before it
        self._rows = len(self._others)

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[HistoryRow]:
        for delivered, others in self.runs():
            yield from delivered_rows(delivered)
            yield from others

    def runs(self) -> Iterator[Run]:
        """Yield all rows in the order to write."""
        arrivals = [
            HistoryRow(at, _RECEIVED, event_id, tenant, type_, number=1)
            for event_id, (at, tenant, type_) in self._received.items()
        ]
        yield Run((), [*map(safe_row, arrivals), *self._of_events])
        start = 0
        for place, group in groupby(zip(self._places, self._others, strict=True), itemgetter(0)):
            yield Run(self._delivered[start:place], [row for _, row in group])
            start = place
        yield Run(self._delivered[start:], ())

    def add(self, row: HistoryRow) -> None:
        """Take *row*."""
        self._append(safe_row(row))
        self._rows += 1

    def add_arrival(self, event: Event, matched: int) -> None:
        """Take the arrival of an event that some subscriptions want."""
        if matched == 1 and event.id not in self._received:
            self._received[event.id] = event.arrived_at, event.tenant, event.type
            self._rows += 1
        else:  # for several, or one in hand was taken again, or another tenant's event has the id
            self.add(received_row(event, matched))

    def add_delivery(
        self, event: Event, target: str, attempt: Attempt, answer: bytes | None, answer_type: str
    ) -> int:
        """Take a first attempt that delivered.

        Args:
            event: Its event.
            target: Id of the subscription.
            attempt: The attempt.
            answer: Start of the response body; None if it is not kept.
            answer_type: Content type of the answer, escaped.

        Returns:
            By how many rows the batch grew: 0 if it was joined with the event's arrival.
        """
        at, event_id, tenant, type_, wait_ms, more = attempt.at, event.id, event.tenant, event.type, None, 1
        received = self._received.get(event_id)
        if received is not None and received[1] == tenant and received[2] == type_:
            del self._received[event_id]
            wait_ms, more = (at - received[0]) * 1000, 0
        status, latency_ms = attempt.status, attempt.duration_s * 1000
        values = (at, event_id, tenant, type_, target, status, latency_ms, wait_ms, answer, answer_type)
        if f"{event_id}{tenant}{type_}".isprintable():
            self._delivered += values
        else:
            self._append(safe_row(DeliveredRow(*values).whole()))
        self._rows += more
        return more

    def _append(self, row: HistoryRow) -> None:
        if row.subscription_id:
            self._others.append(row)
            self._places.append(len(self._delivered))
        else:
            self._of_events.append(row)
