"""Make the statements of SQLite that write a batch of the history.

sqlite3 copies each value of a statement while it holds the interpreter's lock, and deliveries wait for it. So
the statement of short rows contains the values that they have in common, and takes only the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final

from consumer.core.history.noted import NotedRow, ReceivedRow, whole
from consumer.core.history.records import HistoryRow
from consumer.edges.store.history.statements import COLUMNS, TABLE

ROWS_AT_ONCE: Final = (
    500  #: rows of one statement; with 2,000 the first ones took longer, as more memory was new
)
RUN_ROWS: Final = 100  #: a shorter run of short rows is not worth a statement of its own
BATCH_S: Final = 60.0  #: rows of a longer time keep their order, by which a reader finds those of a time
_MARK: Final = "?"


def inserts(rows: Sequence[NotedRow]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield statements that write *rows*, each with its values.

    Events that were taken come first, as each comes before its own deliveries; all others keep their order.
    """
    for kind, run in _runs(_ordered(rows)):
        for start in range(0, len(run), ROWS_AT_ONCE):
            some = run[start : start + ROWS_AT_ONCE]
            yield _insert(kind, len(some)), tuple(chain.from_iterable(some))


def _ordered(rows: Sequence[NotedRow]) -> Iterable[NotedRow]:
    if not rows or rows[-1].at - rows[0].at > BATCH_S:
        return rows
    received = [row for row in rows if type(row) is ReceivedRow]
    return chain(received, [row for row in rows if type(row) is not ReceivedRow])


def _runs(rows: Iterable[NotedRow]) -> Sequence[tuple[type[NotedRow], list[NotedRow]]]:
    """Return *rows* as runs of one kind; short rows between others become whole."""
    runs: list[tuple[type[NotedRow], list[NotedRow]]] = []
    for noted, group in groupby(rows, type):
        run = list(group)
        is_short = len(run) >= RUN_ROWS
        kind = noted if is_short else HistoryRow
        if not runs or runs[-1][0] is not kind:
            runs.append((kind, []))
        runs[-1][1].extend(run if is_short else map(whole, run))
    return runs


def _insert(kind: type[NotedRow], rows: int) -> str:
    """Return the statement: for each row a mark for each of its fields, and the constants of its kind."""
    marks: Any = [_MARK] * len(kind._fields)
    row = f"({', '.join(map(_sql, whole(kind(*marks))))})"
    return f"INSERT INTO {TABLE} ({COLUMNS}) VALUES {', '.join([row] * rows)}"  # noqa: S608 (constants of ours)


def _sql(value: object) -> str:
    """Return a constant as SQL writes it; a mark stays."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) and value != _MARK else str(value)
