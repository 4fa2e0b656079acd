"""Define the sums of many rows, which a store computes itself.

Data flow: rows -> SQL of edges.history -> :data:`Sum` -> ``Activity.add_sum``.

A store sums up one part of its rows after the other. A sum of attempts is of one part. Whether a delivery
waits depends on the rows of all later parts too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

FINENESS: Final = 10
"""Latencies are counted in classes of e^(1/10): a percentile is exact to 5 %."""
_LEAST_MS: Final = 0.1
_CLASSES: Final = 180  #: up to nearly two hours

LATENCY_BOUNDS_MS: Final[Sequence[float]] = [
    float(f"{_LEAST_MS * math.exp(each / FINENESS):.4g}") for each in range(1, _CLASSES + 1)
]
"""The least latency of each class but the first. Four digits mean the same number in each database."""


def latency_class(latency_ms: float) -> int:
    """Return the class of a latency, 0 for the shortest ones."""
    return bisect_right(LATENCY_BOUNDS_MS, latency_ms)


def latency_of(latency_class: int) -> float:
    """Return the latency in the middle of a class, in seconds."""
    return round(math.exp((latency_class + 0.5) / FINENESS) * _LEAST_MS / 1000, 6)


class Part(NamedTuple):
    """The rows to sum up: those with a number from *first* to *last*, from a time on."""

    first: int
    last: int
    hour: float  #: Unix seconds: sums by minute are of rows of this time or later
    day: float  #: Unix seconds: all other sums are of rows of this time or later
    has_hour: bool  #: whether any row can be as late as *hour*; False saves two reads of the rows


class AttemptSum(NamedTuple):
    """Attempts of one subscription within one minute, with the same result and a similar latency."""

    minute: int  #: Unix time in whole minutes
    target: str  #: id of the subscription, here and below
    latency_class: int
    failure: str  #: status or kind of a failed attempt; empty if the attempts delivered
    attempts: int


class ParkedSum(NamedTuple):
    """Deliveries of one subscription that were parked and sent again within one minute."""

    minute: int
    target: str
    added: int
    left: int


class HourSum(NamedTuple):
    """Attempts of one subscription within one hour."""

    hour: int  #: Unix time in whole hours
    target: str
    attempts: int
    delivered: int


class Waiting(NamedTuple):
    """A delivery that waits for an attempt: no later row, in this or another part, ends the wait."""

    target: str
    event_id: str
    at: float  #: Unix seconds of its last step


class Streak(NamedTuple):
    """The last attempts of one subscription within a part; add the parts in order."""

    target: str
    has_delivered: bool  #: whether any attempt delivered
    failures: int  #: failed attempts since the last one that delivered, else all failed ones
    seq: int | None  #: of the row of the last failed attempt; None if no attempt failed
    at: float | None  #: Unix seconds of that row


Sum: TypeAlias = AttemptSum | ParkedSum | HourSum | Waiting | Streak
