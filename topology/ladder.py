"""Choose the wait queue of a delivery message, and the next one when it comes back.

Data flow: wanted wait (core.retry) -> next rung -> wait key -> published to the wait exchange -> due queue. A
rung is one queue with one fixed TTL. A long wait therefore passes several rungs, none of them longer than the
remaining time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

_MINUTE = 60.0
_HOUR = 3600.0

RUNGS_S: tuple[float, ...] = (
    *(0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 30.0, 40.0),
    *(n * _MINUTE for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 30, 40)),
    *(n * _HOUR for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24)),
)
"""TTLs of the default ladder in seconds, ascending: 37 rungs from a quarter of a second to a day."""

LATER_S = 60.0  #: a rung that gives nothing back is avoided even if a delivery comes later by so many seconds
HOPS_MAX = 16  #: most passages of a shorter rung instead of an avoided one


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The rungs, and the limits below which a worker itself waits for the remaining time.

    Attributes:
        rungs_s: TTLs of the wait queues in seconds, ascending, at least one.
        hold_s: The worker waits for a remaining time of at most this many seconds.
        hold_ratio: It also waits for at most this share of the wanted wait, unless the wait is exact.
        hold_max_s: Largest remaining time that the worker waits for, in seconds. An unacked message must stay
            far below the broker's consumer timeout, and must not delay a clean stop.
    """

    rungs_s: tuple[float, ...] = RUNGS_S
    hold_s: float = 1.0
    hold_ratio: float = 0.02
    hold_max_s: float = 10.0


def choose_rung(wanted_s: float, rungs_s: Sequence[float]) -> float | None:
    """Choose the wait queue, identified by its TTL, that returns a message no later than wanted.

    Args:
        wanted_s: Seconds from now until the delivery may be sent; at least 0.
        rungs_s: TTLs of the wait queues in seconds, ascending.

    Returns:
        The largest member of *rungs_s* that is at most *wanted_s*, or ``None`` if even the
        shortest rung would return the message too late.

    Raises:
        ValueError: *wanted_s* is negative.

    Source: RabbitMQ "Time-to-Live" (only the head of a queue expires: one fixed TTL per queue).
    """
    if wanted_s < 0:
        raise ValueError(f"a delay cannot be negative, got {wanted_s}")
    index = bisect_right(rungs_s, wanted_s)
    return rungs_s[index - 1] if index else None


def first_hop_s(wanted_s: float, ladder: Ladder, avoided: Collection[float] = ()) -> float:
    """Return the rung for a wait that begins now; at least the shortest one.

    Even the shortest wait takes a rung, because the broker must store the failure before the original message
    is acked.

    Args:
        wanted_s: Seconds from now until the delivery may be sent; a past time (negative) counts as 0.
        ladder: The rungs to choose from.
        avoided: TTLs of rungs that do not give back now; see :func:`_open_rung`.
    """
    wanted_s = max(wanted_s, 0.0)
    if avoided and (rung_s := _open_rung(wanted_s, ladder, avoided)) is not None:
        return rung_s
    return choose_rung(wanted_s, ladder.rungs_s) or ladder.rungs_s[0]


def next_hop_s(
    remaining_s: float,
    wanted_s: float,
    ladder: Ladder,
    avoided: Collection[float] = (),
    *,
    exact: bool = False,
) -> float | None:
    """Return the next rung of a delivery message that came back, or ``None`` if the worker waits itself.

    No part of the wait is skipped. On ``None`` the caller waits for *remaining_s* (if it is above 0) and then
    sends, so that no delivery is early.

    Args:
        remaining_s: Seconds from now until the delivery may be sent; 0 or less if it is due.
        wanted_s: The whole wait as first wanted, in seconds.
        ladder: The rungs, and the limits of a wait in the worker.
        avoided: TTLs of rungs that do not give back now; see :func:`_open_rung`.
        exact: The endpoint named the time (``Retry-After``), so that the share of the wait does not count.
    """
    if remaining_s <= ladder.hold_s:
        return None
    near = remaining_s <= ladder.hold_ratio * wanted_s and not exact
    if near and remaining_s <= ladder.hold_max_s:
        return None
    if avoided and (rung_s := _open_rung(remaining_s, ladder, avoided)) is not None:
        return rung_s
    return choose_rung(remaining_s, ladder.rungs_s)


def _open_rung(wanted_s: float, ladder: Ladder, avoided: Collection[float]) -> float | None:
    """Choose a rung beside those that do not give back.

    Returns:
        The largest other rung that is at most *wanted_s*, unless the wait would take more than
        :data:`HOPS_MAX` of it: many deliveries on a short rung would overload the broker. Else the shortest
        rung that is longer by at most :data:`LATER_S`: on an avoided rung a message would come even later.
        ``None`` if there is neither.
    """
    rungs_s = [rung_s for rung_s in ladder.rungs_s if rung_s not in avoided]
    shorter_s = choose_rung(wanted_s, rungs_s)
    if shorter_s is not None and shorter_s * HOPS_MAX >= wanted_s:
        return shorter_s
    longer_s = next((rung_s for rung_s in rungs_s if rung_s > wanted_s), inf)
    return longer_s if longer_s <= wanted_s + LATER_S else None


def round_ms(seconds: float) -> int:
    """Return *seconds* as whole milliseconds, the unit of a queue's TTL and of the rungs' names."""
    return round(seconds * 1000)


def wait_key(rung_s: float, due_queue: str) -> str:
    """Return the routing key ``<ms>.<due queue>`` that names both the rung and its destination.

    The key survives dead-lettering. The same text therefore selects the rung on the wait exchange and the due
    queue on the due exchange.

    Source: RabbitMQ "Dead Letter Exchanges" (without x-dead-letter-routing-key the original keys stay).
    """
    return f"{round_ms(rung_s)}.{due_queue}"
