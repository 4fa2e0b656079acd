"""Write the SQL of the history: the table, and a query as conditions.

SQLite and PostgreSQL share the names of columns and indexes. Each has its own types and placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from consumer.core.history.records import HistoryRow, Query

TABLE: Final = "leveret_history"
WRITERS: Final = "leveret_history_writers"  #: the number of each writer's last batch
WRITER_KEPT_S: Final = 86_400.0  #: a writer's row is deleted so long after its last batch
COLUMNS: Final = ", ".join(HistoryRow._fields)
_LIGHT: Final = ", ".join({"detail": "''", "answer": "NULL"}.get(name, name) for name in HistoryRow._fields)

FAILED: Final = "(step = 'parked' OR (step = 'attempt' AND reason <> 'delivered'))"
"""The rows of :func:`consumer.core.history.records.is_failure`, as the partial index names them."""

#: Indexes: name, column, and which rows they cover. Each ends with *seq*, so that a query by one of the
#: columns is read in order. There is no index on *at*: rows are written nearly in the order of time.
INDEXES: Final[Sequence[tuple[str, str, str]]] = (
    ("leveret_history_event", "event_id", ""),
    ("leveret_history_subscription", "subscription_id", "subscription_id <> ''"),
    ("leveret_history_delivery", "delivery_id", "delivery_id <> ''"),
    ("leveret_history_failed", "tenant", FAILED),
)

LATE_S: Final = 3_600.0
"""A row is written at most this long after its time; while a store is away it may be longer."""
FUTURE_S: Final = 3_600.0
"""A row that is this far in the future was written before the clock was set back."""

SEARCH: Final = f"SELECT at FROM {TABLE} WHERE seq >= {{}} ORDER BY seq LIMIT 1"  # noqa: S608 (constants of ours)


class Span(NamedTuple):
    """The rows among which a query searches."""

    first: int = 0  #: smallest *seq* that can match
    last: int | None = None  #: largest *seq* that can match; None sets no condition


def select_steps(query: Query, span: Span, mark: Callable[[int], str]) -> tuple[str, Sequence[Any]]:
    """Return the statement of *query*, and its values.

    Args:
        query: The conditions.
        span: The rows that can match.
        mark: Returns the placeholder of the n-th value, 1-based.
    """
    if query.subscription_ids and not query.event_ids:
        return _united(query, span, mark)
    values: list[Any] = []
    conditions: list[str] = []
    for condition, some in _conditions(query, span):
        marks = [mark(len(values) + place) for place in range(1, len(some) + 1)]
        conditions.append(condition.format(*marks))
        values += some
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "DESC" if query.after is None else "ASC"
    columns = _LIGHT if query.light else COLUMNS
    text = f"SELECT seq, {columns} FROM {TABLE} {where} ORDER BY seq {order} LIMIT {query.limit}"  # noqa: S608 (constants of ours)
    return text, values


def _conditions(query: Query, span: Span) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield each condition, with braces for its values."""
    for column in ("event_id", "delivery_id", "subscription_id", "tenant"):
        if wanted := getattr(query, column):
            yield f"{column} = {{}}", [wanted]
    if query.subscription_id:
        yield "subscription_id <> ''", ()
    if query.delivery_id:
        yield "delivery_id <> ''", ()
    if query.failed_only:
        yield FAILED, ()
    chosen = {"seq": query.seqs, "event_id": query.event_ids, "subscription_id": query.subscription_ids}
    for column, values in chosen.items():
        if values:
            yield f"{column} IN ({', '.join(['{}'] * len(values))})", values
    bounds = {
        "at >= {}": query.since or None,
        "at < {}": query.until or None,
        "seq >= {}": span.first or None,
        "seq <= {}": span.last,
        "seq > {}": query.after,
        "seq < {}": query.before,
    }
    yield from ((condition, [value]) for condition, value in bounds.items() if value is not None)


def _united(query: Query, span: Span, mark: Callable[[int], str]) -> tuple[str, Sequence[Any]]:
    """Return a statement that reads each subscription by its index, and then chooses among these rows."""
    values: list[Any] = []
    parts: list[str] = []
    for number, each in enumerate(query.subscription_ids):
        one = replace(query, subscription_ids=(), subscription_id=each)
        text, some = select_steps(one, span, partial(_mark_after, mark, len(values)))
        parts.append(f"SELECT * FROM ({text}) AS part{number}")  # noqa: S608 (constants of ours)
        values += some
    order = "DESC" if query.after is None else "ASC"
    united = " UNION ALL ".join(parts)
    return f"SELECT * FROM ({united}) AS united ORDER BY seq {order} LIMIT {query.limit}", values  # noqa: S608 (constants of ours)


def _mark_after(mark: Callable[[int], str], values: int, number: int) -> str:
    """Return the placeholder of a value behind *values* others."""
    return mark(values + number)


def needs_first(query: Query) -> bool:
    """Return whether *query* has no condition with an index, and reads all rows since a time."""
    return query.since > 0 and not _is_indexed(query)


def needs_last(query: Query) -> bool:
    """Return whether *query* has no condition with an index, and reads rows of before a time."""
    return query.until > 0 and not _is_indexed(query)


def _is_indexed(query: Query) -> bool:
    ids = query.event_id or query.delivery_id or query.subscription_id
    return bool(ids or query.event_ids or query.subscription_ids or (query.tenant and query.failed_only))
