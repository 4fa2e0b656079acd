"""Gather rows of the history until a store writes them.

Data flow: edges.store.history.history_writer -> :class:`HistoryBatch` -> a store.

The most frequent event has one subscription, which gets it at the first attempt. Its two steps, arrival and
attempt, become one row if they meet in one batch; :func:`.records.parted` makes two of it again. The values
of such rows are in one list: Python's collector would visit each row that is an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


def received_row(event: Event, matched: int) -> HistoryRow:
    """Return the row of an event's arrival; *matched* is the number of subscriptions that want it."""
    at, ids = event.arrived_at, (event.id, event.tenant, event.type)
    return HistoryRow(at, _RECEIVED, *ids, number=matched)


class HistoryBatch:
    """Rows of one transaction. It iterates over them in the order to write, each with all columns.

    Attributes:
        delivered: The values of the rows of first attempts that delivered, :data:`FIELDS` for each.
    """

    def __init__(self, rows: Iterable[HistoryRow] = ()) -> None:
        """Begin with *rows*."""
        self._received: dict[str, tuple[float, str, str]] = {}  #: time, tenant and type by event
        self.delivered: list[Any] = []
        self._others = list(rows)
        self._rows = len(self._others)

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[HistoryRow]:
        for start in range(0, len(self.delivered), FIELDS):
            yield DeliveredRow(*self.delivered[start : start + FIELDS]).whole()
        yield from self.others()

    def others(self) -> Sequence[HistoryRow]:
        """Return all rows but those in :attr:`delivered`."""
        arrivals = [
            HistoryRow(at, _RECEIVED, event_id, tenant, kind, number=1)
            for event_id, (at, tenant, kind) in self._received.items()
        ]
        return [*map(safe_row, arrivals), *self._others]

    def add(self, row: HistoryRow) -> None:
        """Take *row*."""
        self._others.append(safe_row(row))
        self._rows += 1

    def add_arrival(self, event: Event, matched: int) -> None:
        """Take the arrival of an event that some subscriptions want."""
        if matched == 1 and event.id not in self._received:
            self._received[event.id] = event.arrived_at, event.tenant, event.type
            self._rows += 1
        else:  # one of those in hand was taken again, or is another tenant's
            self.add(received_row(event, matched))

    def add_delivery(
        self, event: Event, target: str, attempt: Attempt, answer: bytes | None, kind: str
    ) -> int:
        """Take a first attempt that delivered.

        Args:
            event: Its event.
            target: Id of the subscription.
            attempt: The attempt.
            answer: Start of the response body; None if it is not kept.
            kind: Content type of the answer, escaped.

        Returns:
            The number of rows that there are more: 0 if it was joined with the event's arrival.
        """
        event_id, tenant, type_, wait_ms, more = event.id, event.tenant, event.type, None, 1
        received = self._received.get(event_id)
        if received is not None and received[1] == tenant and received[2] == type_:
            del self._received[event_id]
            wait_ms, more = (attempt.at - received[0]) * 1000, 0
        latency_ms = attempt.duration_s * 1000
        values = (
            attempt.at,
            event_id,
            tenant,
            type_,
            target,
            attempt.status,
            latency_ms,
            wait_ms,
            answer,
            kind,
        )
        if f"{event_id}{tenant}{type_}".isprintable():
            self.delivered += values
        else:
            self._others.append(safe_row(DeliveredRow(*values).whole()))
        self._rows += more
        return more
