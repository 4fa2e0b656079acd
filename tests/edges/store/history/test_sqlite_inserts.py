"""The statements of SQLite that write a batch of the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.model import Attempt, OutcomeKind
from consumer.edges.store.history.sqlite_inserts import ROWS_AT_ONCE, inserts
from consumer.edges.store.history.statements import COLUMNS, TABLE
from tests.support.worker import event

FAILED = HistoryRow(
    2.5,
    "attempt",
    "ord-1",
    "acme",
    "order.created",
    "sub_1",
    "dlv_1",
    3,
    "http_5xx",
    503,
    7.5,
    1000.0,
    "retry",
    "'); DROP TABLE leveret_history; --",
    b"?",
    "?",
)


def written(batch: HistoryBatch) -> Sequence[HistoryRow]:
    """Write rows to a table, and return what it contains, in the order of writing."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE {TABLE} (seq INTEGER PRIMARY KEY AUTOINCREMENT, {COLUMNS})")
    for statement, values in inserts(batch):
        connection.execute(statement, values)
    found = connection.execute(f"SELECT {COLUMNS} FROM {TABLE} ORDER BY seq").fetchall()  # noqa: S608 (constants of ours)
    connection.close()
    return [HistoryRow(*row) for row in found]


def delivered(batch: HistoryBatch, rows: int) -> None:
    """Add first attempts that delivered."""
    for number in range(rows):
        attempt = Attempt(1, number / 100, OutcomeKind.OK, 200, 0.25)
        batch.add_delivery(event(), "sub_1", attempt, b"\xff\0ok", "text/plain; x='?'")


@settings(max_examples=60)
@given(st.integers(0, 3 * ROWS_AT_ONCE), st.integers(0, 3 * ROWS_AT_ONCE))
def test_each_row_is_written_whole_and_in_its_order(short: int, whole: int) -> None:
    """A short row has the same columns as the others, whichever statement wrote it."""
    batch = HistoryBatch([FAILED._replace(at=float(number)) for number in range(whole)])
    delivered(batch, short)

    assert written(batch) == list(batch)
    assert len(batch) == short + whole


def test_short_rows_bring_few_values() -> None:
    """Ten of sixteen: the others are part of the statement (decision 34)."""
    batch = HistoryBatch([FAILED] * 100)
    delivered(batch, 100)

    assert [len(values) / 100 for _, values in inserts(batch)] == [10, 16]


def test_a_statement_has_a_bounded_number_of_rows() -> None:
    """SQLite takes 32,766 values in one."""
    batch = HistoryBatch()
    delivered(batch, 2 * ROWS_AT_ONCE + 1)

    assert [len(values) / 10 for _, values in inserts(batch)] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
