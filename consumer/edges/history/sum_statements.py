"""Write the SQL that sums up rows of the history, for SQLite and PostgreSQL.

Each statement reads the rows of one part: a range of numbers, so that its time is bounded. Its values are the
first number, the last number, and the time of the oldest row, see :class:`consumer.core.history.sums.Part`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from consumer.core.history.sums import (
    LATENCY_BOUNDS_MS,
    AttemptSum,
    HourSum,
    ParkedSum,
    Part,
    Streak,
    Sum,
    Waiting,
)
from consumer.edges.history.statements import TABLE


class SumStatement(NamedTuple):
    """One statement."""

    make: Callable[..., Sum]  #: takes the columns of a row of the result
    text: str
    is_of_hour: bool  #: whether it reads rows of the last hour, or of the last day

    def is_wanted(self, part: Part) -> bool:
        """Return whether the part can have such sums."""
        return part.has_hour or not self.is_of_hour

    def values(self, part: Part) -> tuple[int, int, float]:
        """Return the values of the three placeholders."""
        return part.first, part.last, part.hour if self.is_of_hour else part.day


def _latency_class(low: int = 0, high: int = len(LATENCY_BOUNDS_MS)) -> str:
    """Return a binary search among the classes from *low* to *high*; no latency is in the first class."""
    if low == high:
        return str(low)
    middle = (low + high) // 2
    above, below = _latency_class(middle + 1, high), _latency_class(low, middle)
    return f"CASE WHEN latency_ms >= {LATENCY_BOUNDS_MS[middle]!r} THEN {above} ELSE {below} END"


_WAITS: Final = "(step IN ('deferred', 'replayed') OR (step = 'attempt' AND reason IN ('retry', 'defer')))"
_OF_DELIVERY: Final = "step IN ('attempt', 'deferred', 'replayed', 'parked', 'cancelled')"
_FAILURE: Final = """
CASE WHEN reason = 'delivered' THEN '' WHEN status IS NULL THEN kind ELSE CAST(status AS TEXT) END"""

_ATTEMPTS: Final = f"""
SELECT {{minute}}, subscription_id, {_latency_class()}, {_FAILURE}, count(*)
FROM {TABLE} WHERE {{part}} AND step = 'attempt' GROUP BY 1, 2, 3, 4"""  # noqa: S608 (constants of ours)

_PARKED: Final = f"""
SELECT {{minute}}, subscription_id, count(CASE WHEN step = 'parked' THEN 1 END),
    count(CASE WHEN step = 'replayed' THEN 1 END)
FROM {TABLE} WHERE {{part}} AND step IN ('parked', 'replayed') GROUP BY 1, 2"""  # noqa: S608 (constants of ours)

_HOURS: Final = f"""
SELECT {{hour}}, subscription_id, count(*), count(CASE WHEN reason = 'delivered' THEN 1 END)
FROM {TABLE} WHERE {{part}} AND step = 'attempt' GROUP BY 1, 2"""  # noqa: S608 (constants of ours)

#: Only the few deliveries that wait at the end of the part are looked up among later rows.
_WAITING: Final = f"""
SELECT last.subscription_id, last.event_id, last.at
FROM (
    SELECT max(seq) AS seq FROM {TABLE} WHERE {{part}} AND {_OF_DELIVERY}
    GROUP BY subscription_id, event_id HAVING max(seq) = max(CASE WHEN {_WAITS} THEN seq END)
) AS found JOIN {TABLE} AS last ON last.seq = found.seq
WHERE NOT EXISTS (
    SELECT 1 FROM {TABLE} AS later
    WHERE later.event_id = last.event_id AND later.subscription_id = last.subscription_id
    AND later.seq > {{last}} AND later.at >= {{since}} AND later.{_OF_DELIVERY}
)"""  # noqa: S608 (constants of ours)

_STREAKS: Final = f"""
WITH attempts AS (
    SELECT subscription_id, seq, at, reason = 'delivered' AS is_ok
    FROM {TABLE} WHERE {{part}} AND step = 'attempt'
), ends AS (
    SELECT subscription_id, coalesce(max(CASE WHEN is_ok THEN seq END), 0) AS good,
        max(CASE WHEN is_ok THEN NULL ELSE seq END) AS bad
    FROM attempts GROUP BY subscription_id
)
SELECT attempts.subscription_id, good > 0, count(CASE WHEN seq > good THEN 1 END), bad,
    max(CASE WHEN seq = bad THEN at END)
FROM attempts JOIN ends ON ends.subscription_id = attempts.subscription_id
GROUP BY attempts.subscription_id, good, bad"""  # noqa: S608 (constants of ours)


def sum_statements(mark: Callable[[int], str], floor: str) -> Sequence[SumStatement]:
    """Return the statements in the dialect of a database.

    Args:
        mark: Returns the placeholder of the n-th value, 1-based; it may occur more than once.
        floor: Name of the function that rounds down; empty if a cast to an integer does.
    """
    first, last, since = map(mark, (1, 2, 3))
    places = {
        "part": f"seq BETWEEN {first} AND {last} AND at >= {since} AND subscription_id <> ''",
        "minute": f"CAST({floor}(at / 60) AS bigint)",
        "hour": f"CAST({floor}(at / 3600) AS bigint)",
        "last": last,
        "since": since,
    }
    return [
        SumStatement(AttemptSum, _ATTEMPTS.format(**places), is_of_hour=True),
        SumStatement(ParkedSum, _PARKED.format(**places), is_of_hour=True),
        SumStatement(HourSum, _HOURS.format(**places), is_of_hour=False),
        SumStatement(Waiting, _WAITING.format(**places), is_of_hour=False),
        SumStatement(Streak, _STREAKS.format(**places), is_of_hour=False),
    ]
