"""Choose rows of the history for a list of attempts or of deliveries.

Data flow: rows, newest first -> :meth:`Listing.takes` -> attempts, or the newest row of each delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from consumer.core.history.records import HistoryRow, Step, is_failure
from consumer.core.history.status import DeliveryStatus, is_of_delivery

_FAILED_ATTEMPTS: Final = ("retry", "defer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The wanted rows; an empty text or None sets no condition."""

    tenant: str = ""
    subscription_id: str = ""
    type: str = ""  #: an AMQP topic pattern
    failed: bool = False  #: only failed attempts and parked deliveries
    since: float | None = None  #: Unix seconds
    until: float | None = None  #: Unix seconds; rows of then or later are left out
    status: DeliveryStatus | None = None  #: only rows that can be the last one of a delivery with this status
    code: str = ""  #: of an attempt: a status such as ``503``, or a kind such as ``timeout_total``
    attempts_only: bool = False

    def takes(self, row: HistoryRow, fits: Callable[[str, str], bool]) -> bool:
        """Return whether *row* is wanted.

        Args:
            row: A row of the history.
            fits: Returns whether an event type (second) fits an AMQP topic pattern (first).
        """
        return (
            is_of_delivery(row)
            and (not self.attempts_only or row.step == Step.ATTEMPT)
            and self.tenant in ("", row.tenant)
            and self.subscription_id in ("", row.subscription_id)
            and (not self.failed or is_failure(row))
            and (self.since is None or row.at >= self.since)
            and (self.until is None or row.at < self.until)
            and (not self.code or self.code == code_of(row))
            and (self.status is None or _MAY_END[self.status](row))
            and (not self.type or fits(self.type, row.type))
        )

    @property
    def only_failures(self) -> bool:
        """Return whether each wanted row is a failed attempt or a parked delivery."""
        return self.failed or self.status is DeliveryStatus.PARKED


def code_of(row: HistoryRow) -> str:
    """Return the result of an attempt: its HTTP status, or its kind without one."""
    return row.kind if row.status is None else str(row.status)


def _is_delivered(row: HistoryRow) -> bool:
    return row.step == Step.ATTEMPT and row.reason == "delivered"


def _is_parked(row: HistoryRow) -> bool:
    return row.step == Step.PARKED or (row.step == Step.ATTEMPT and row.reason == "park")


def _is_cancelled(row: HistoryRow) -> bool:
    return row.step == Step.CANCELLED or (row.step == Step.ATTEMPT and row.reason == "drop")


def _is_owed(row: HistoryRow) -> bool:
    is_failed = row.step == Step.ATTEMPT and row.reason in _FAILED_ATTEMPTS
    return is_failed or row.step in (Step.DEFERRED, Step.REPLAYED)


_MAY_END: Final[Mapping[DeliveryStatus, Callable[[HistoryRow], bool]]] = {
    DeliveryStatus.DELIVERED: _is_delivered,
    DeliveryStatus.PARKED: _is_parked,
    DeliveryStatus.CANCELLED: _is_cancelled,
    DeliveryStatus.WAITING: _is_owed,
    DeliveryStatus.DELIVERING: _is_owed,
}
