"""Make the statements of SQLite that write a batch of the history.

Copying the values takes a good part of a write. So the statement of short rows contains the values that they
have in common, and takes only the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from consumer.core.history.batch import FIELDS, DeliveredRow, HistoryBatch, delivered_rows
from consumer.core.history.records import HistoryRow
from consumer.edges.history.statements import COLUMNS, TABLE

ROWS_AT_ONCE: Final = 250  #: rows of one statement; with 2,000 the first ones took longer, as memory was new
RUN_ROWS: Final = 100  #: a shorter run of short rows is not worth a statement of its own
_MARK: Final = "?"
_MARKS: Final[Any] = (_MARK,) * len(HistoryRow._fields)
_WHOLE: Final = HistoryRow(*_MARKS)
_SHORT: Final = DeliveredRow(*_MARKS[:FIELDS]).whole()


def inserts(batch: HistoryBatch) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield statements that write the rows of *batch* in their order, each with its values."""
    whole: list[HistoryRow] = []
    for delivered, others in batch.runs():
        if len(delivered) >= FIELDS * RUN_ROWS:
            yield from _cut(_WHOLE, list(chain.from_iterable(whole)))
            whole.clear()
            yield from _cut(_SHORT, delivered)
        else:
            whole += delivered_rows(delivered)
        whole += others
    yield from _cut(_WHOLE, list(chain.from_iterable(whole)))


def _cut(row: HistoryRow, values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield statements for rows like *row*, which has marks, and the constants of its kind."""
    fields = row.count(_MARK)
    for start in range(0, len(values), fields * ROWS_AT_ONCE):
        some = values[start : start + fields * ROWS_AT_ONCE]
        yield _insert(row, len(some) // fields), some


def _insert(row: HistoryRow, rows: int) -> str:
    one = f"({', '.join(map(_sql, row))})"
    return f"INSERT INTO {TABLE} ({COLUMNS}) VALUES {', '.join([one] * rows)}"  # noqa: S608 (constants of ours)


def _sql(value: object) -> str:
    """Return a constant as SQL writes it; a mark stays."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) and value != _MARK else str(value)
