"""Write the SQL of the history: the table, and a query as conditions.

SQLite and PostgreSQL share the names of columns and indexes. Each has its own types and placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from consumer.core.history.records import HistoryRow, Query

TABLE: Final = "leveret_history"
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


def select_steps(query: Query, first: int, mark: Callable[[int], str]) -> tuple[str, Sequence[Any]]:
    """Return the statement of *query*, and its values.

    Args:
        query: The conditions.
        first: Smallest *seq* that can match.
        mark: Returns the placeholder of the n-th value, 1-based.
    """
    values: list[Any] = []
    conditions: list[str] = []

    def require(condition: str, value: object) -> None:
        values.append(value)
        conditions.append(condition.format(mark(len(values))))

    for column in ("event_id", "delivery_id", "subscription_id", "tenant"):
        if wanted := getattr(query, column):
            require(f"{column} = {{}}", wanted)
    if query.subscription_id:
        conditions.append("subscription_id <> ''")
    if query.delivery_id:
        conditions.append("delivery_id <> ''")
    if query.failed_only:
        conditions.append(FAILED)
    if query.since:
        require("at >= {}", query.since)
    if first > 0:
        require("seq >= {}", first)
    if query.after is not None:
        require("seq > {}", query.after)
    if query.before is not None:
        require("seq < {}", query.before)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "DESC" if query.after is None else "ASC"
    columns = _LIGHT if query.light else COLUMNS
    text = f"SELECT seq, {columns} FROM {TABLE} {where} ORDER BY seq {order} LIMIT {query.limit}"  # noqa: S608 (constants of ours)
    return text, values


def needs_first(query: Query) -> bool:
    """Return whether *query* has no condition with an index, and reads all rows since a time."""
    indexed = query.event_id or query.delivery_id or query.subscription_id
    return query.since > 0 and not indexed and not (query.tenant and query.failed_only)
