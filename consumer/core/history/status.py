"""Compute the status of a delivery from its rows in the history.

Data flow: rows of one delivery -> :func:`state_of` -> the command line. Source: S2-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from consumer.core.history.records import HistoryRow, Step


class DeliveryStatus(StrEnum):
    """The status of a delivery."""

    WAITING = "waiting"  #: for its next attempt, until a known time
    DELIVERING = "delivering"  #: due: queued for a worker, or in the hands of one
    DELIVERED = "delivered"
    PARKED = "parked"  #: given up until an operator replays it
    CANCELLED = "cancelled"  #: nothing more is owed


class DeliveryState(NamedTuple):
    """The status of a delivery at one time."""

    status: DeliveryStatus
    since: float  #: Unix seconds of the step that caused it
    until: float | None = None  #: waiting: Unix seconds of the next attempt at the earliest


#: Steps of a delivery, in the order in which they follow each other at one time.
_ORDER: Final = {
    Step.ATTEMPT.value: 0,
    Step.DEFERRED.value: 1,
    Step.CANCELLED.value: 2,
    Step.PARKED.value: 3,
    Step.REPLAYED.value: 4,
}
_ENDS: Final = {
    "park": DeliveryStatus.PARKED,
    "drop": DeliveryStatus.CANCELLED,
}


def is_of_delivery(row: HistoryRow) -> bool:
    """Return whether *row* is a step of a delivery, not of the whole event."""
    return row.step in _ORDER


def ended_at(row: HistoryRow) -> float:
    """Return when the step was over, in Unix seconds."""
    return row.at + (row.latency_ms or 0.0) / 1000


def waits_until(row: HistoryRow) -> float | None:
    """Return until when the delivery waits after this step, in Unix seconds; None if it does not wait."""
    waits = row.step == Step.DEFERRED or (row.step == Step.ATTEMPT and row.reason in ("retry", "defer"))
    return ended_at(row) + row.wait_ms / 1000 if waits and row.wait_ms is not None else None


def in_order(rows: Sequence[HistoryRow]) -> Sequence[HistoryRow]:
    """Return *rows* in the order in which the steps were over; steps of the whole event come first."""
    return sorted(rows, key=_place)


def _place(row: HistoryRow) -> tuple[float, int, int, str, float]:
    return ended_at(row), _ORDER.get(row.step, -1), row.number, row.reason, row.wait_ms or 0.0


def state_of(rows: Sequence[HistoryRow], now: float) -> DeliveryState | None:
    """Return the state of a delivery; None if *rows* contain no step of it.

    A success counts even if a doubled delivery message failed afterwards; only a replay begins anew.
    Otherwise the last step decides.

    Args:
        rows: Rows of one delivery, in any order; rows of the whole event are ignored.
        now: Unix seconds.
    """
    steps = in_order([row for row in rows if is_of_delivery(row)])
    if not steps:
        return None
    replays = [index for index, row in enumerate(steps) if row.step == Step.REPLAYED]
    for row in steps[replays[-1] if replays else 0 :]:
        if row.step == Step.ATTEMPT and row.reason == "delivered":
            return DeliveryState(DeliveryStatus.DELIVERED, ended_at(row))
    last = steps[-1]
    if (until := waits_until(last)) is not None and now < until:
        return DeliveryState(DeliveryStatus.WAITING, ended_at(last), until)
    return DeliveryState(_status_after(last), ended_at(last))


def _status_after(row: HistoryRow) -> DeliveryStatus:
    """Return the status after a step whose wait, if there was one, is over."""
    match row.step:
        case Step.PARKED:
            return DeliveryStatus.PARKED
        case Step.CANCELLED:
            return DeliveryStatus.CANCELLED
        case Step.ATTEMPT:
            return _ENDS.get(row.reason, DeliveryStatus.DELIVERING)
        case _:
            return DeliveryStatus.DELIVERING
