"""Choose how long a delivery message rests before it is looked at again.

Data flow: wanted wait (core.retry) -> next rung -> wait key -> published to the wait exchange -> due queue.
A rung is one queue with one fixed TTL, so a long wait is a short walk over rungs, each at or below what
is left of it. Pure: no clock, no random.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_MINUTE = 60.0
_HOUR = 3600.0

RUNGS_S: tuple[float, ...] = (
    *(0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 30.0, 40.0),
    *(n * _MINUTE for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 30, 40)),
    *(n * _HOUR for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24)),
)
"""TTLs of the default ladder in seconds, ascending: 37 rungs from a quarter of a second to a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The rungs, and when the rest of a wait is short enough to be held in the worker.

    Attributes:
        rungs_s: TTLs of the wait queues in seconds, ascending, at least one.
        hold_s: A rest of at most this many seconds is held in the worker.
        hold_ratio: A rest of at most this share of the wanted wait is held too, unless the wait is exact.
        hold_max_s: No rest above this many seconds is held: an unacked message must not near the
            broker's consumer timeout, nor stand in the way of a clean stop.
    """

    rungs_s: tuple[float, ...] = RUNGS_S
    hold_s: float = 1.0
    hold_ratio: float = 0.02
    hold_max_s: float = 10.0


def choose_rung(wanted_s: float, rungs_s: Sequence[float]) -> float | None:
    """Pick the wait queue, named by its TTL, that comes back no later than wanted.

    Args:
        wanted_s: Seconds from now until the delivery may be sent; at least 0.
        rungs_s: TTLs of the wait queues in seconds, ascending.

    Returns:
        The largest member of *rungs_s* that is at most *wanted_s*, or ``None`` when even
        the shortest rung would come back too late.

    Raises:
        ValueError: *wanted_s* is negative.

    Source: RabbitMQ "Time-to-Live" (only a queue's head expires: one fixed TTL per queue).
    """
    if wanted_s < 0:
        raise ValueError(f"a delay cannot be negative, got {wanted_s}")
    index = bisect_right(rungs_s, wanted_s)
    return rungs_s[index - 1] if index else None


def first_hop_s(wanted_s: float, ladder: Ladder) -> float:
    """Return the rung for a wait that begins now; at least the shortest one.

    There is always a hop, however short the wait: the failure has to be stored at the broker before the
    message that it came from is acked.

    Args:
        wanted_s: Seconds from now until the delivery may be sent; a past time (negative) counts as 0.
        ladder: The rungs to choose from.
    """
    return choose_rung(max(wanted_s, 0.0), ladder.rungs_s) or ladder.rungs_s[0]


def next_hop_s(remaining_s: float, wanted_s: float, ladder: Ladder, *, exact: bool = False) -> float | None:
    """Return the rung for a delivery message that came back, or ``None``: hold the rest in the worker.

    The rest is never skipped: on ``None`` the caller waits out *remaining_s* (nothing, when it is not
    above 0) and only then sends, so nothing is ever early.

    Args:
        remaining_s: Seconds from now until the delivery may be sent; 0 or less when it is time.
        wanted_s: The whole wait as it was wanted at first, in seconds.
        ladder: The rungs, and the bounds of what is held.
        exact: The endpoint named the time (``Retry-After``): the share of the wait does not count.
    """
    if remaining_s <= ladder.hold_s:
        return None
    near = remaining_s <= ladder.hold_ratio * wanted_s and not exact
    if near and remaining_s <= ladder.hold_max_s:
        return None
    return choose_rung(remaining_s, ladder.rungs_s)


def round_ms(seconds: float) -> int:
    """Return *seconds* as whole milliseconds, the unit of a queue's TTL and of the rungs' names."""
    return round(seconds * 1000)


def wait_key(rung_s: float, due_queue: str) -> str:
    """Return the routing key ``<ms>.<due queue>`` that names both the rung and where it leads.

    The key survives dead-lettering, so the same text chooses the rung on the wait exchange and the due
    queue on the due exchange.

    Source: RabbitMQ "Dead Letter Exchanges" (without x-dead-letter-routing-key the original keys stay).
    """
    return f"{round_ms(rung_s)}.{due_queue}"
