"""Make the statements of SQLite that write a batch of the history.

sqlite3 copies each value of a statement while it holds the interpreter's lock, and deliveries wait for it. So
the statement of short rows contains the values that they have in common, and takes only the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from consumer.core.history.batch import FIELDS, DeliveredRow, HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.edges.store.history.statements import COLUMNS, TABLE

ROWS_AT_ONCE: Final = 250  #: rows of one statement; with 2,000 the first ones took longer, as memory was new
_MARK: Final = "?"
_MARKS: Final[Any] = (_MARK,) * len(HistoryRow._fields)


def inserts(batch: HistoryBatch) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield statements that write the rows of *batch* in their order, each with its values."""
    short = DeliveredRow(*_MARKS[:FIELDS]).whole()
    for start in range(0, len(batch.delivered), FIELDS * ROWS_AT_ONCE):
        values = batch.delivered[start : start + FIELDS * ROWS_AT_ONCE]
        yield _insert(short, len(values) // FIELDS), values
    others = batch.others()
    for start in range(0, len(others), ROWS_AT_ONCE):
        some = others[start : start + ROWS_AT_ONCE]
        yield _insert(HistoryRow(*_MARKS), len(some)), list(chain.from_iterable(some))


def _insert(row: HistoryRow, rows: int) -> str:
    """Return the statement for so many rows like *row*, which has marks, and the constants of its kind."""
    one = f"({', '.join(map(_sql, row))})"
    return f"INSERT INTO {TABLE} ({COLUMNS}) VALUES {', '.join([one] * rows)}"  # noqa: S608 (constants of ours)


def _sql(value: object) -> str:
    """Return a constant as SQL writes it; a mark stays."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) and value != _MARK else str(value)
