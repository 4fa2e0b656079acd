"""The statements of SQLite that write a batch of the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.history.noted import DeliveredRow, NotedRow, ReceivedRow, whole
from consumer.core.history.records import HistoryRow
from consumer.edges.store.history.sqlite_inserts import ROWS_AT_ONCE, RUN_ROWS, inserts
from consumer.edges.store.history.statements import COLUMNS, TABLE

RECEIVED = ReceivedRow(1.5, "ord-1", "acme", "order.created", 2)
DELIVERED = DeliveredRow(
    2.5, "ord-1", "acme", "order.created", "sub_1", 200, 3.25, b"\xff\0ok", "text/plain; x='?'"
)
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


def written(rows: Sequence[NotedRow]) -> Sequence[HistoryRow]:
    """Write rows to a table, and return what it contains, in the order of writing."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE {TABLE} (seq INTEGER PRIMARY KEY AUTOINCREMENT, {COLUMNS})")
    for statement, values in inserts(rows):
        connection.execute(statement, values)
    found = connection.execute(f"SELECT {COLUMNS} FROM {TABLE} ORDER BY seq").fetchall()  # noqa: S608 (constants of ours)
    connection.close()
    return [HistoryRow(*row) for row in found]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from((RECEIVED, DELIVERED, FAILED)), st.integers(1, 2 * RUN_ROWS)), max_size=6
    )
)
def test_each_row_is_written_whole_and_in_its_order(runs: Sequence[tuple[NotedRow, int]]) -> None:
    """Only events that were taken come before the rest of their batch."""
    rows = [row._replace(at=number / 100) for row, count in runs for number in range(count)]

    found = written(rows)

    received = [whole(row) for row in rows if isinstance(row, ReceivedRow)]
    assert found == received + [whole(row) for row in rows if not isinstance(row, ReceivedRow)]


def test_short_rows_bring_few_values() -> None:
    """Five and nine of sixteen: the others are part of the statement (decision 34)."""
    events: list[NotedRow] = [RECEIVED, DELIVERED] * RUN_ROWS

    assert [len(values) / RUN_ROWS for _, values in inserts(events)] == [5, 9]


def test_mixed_rows_share_a_statement() -> None:
    """A statement for each short run would take the interpreter's lock anew each time."""
    assert [len(values) for _, values in inserts([DELIVERED, FAILED] * 100)] == [16 * 200]


def test_a_few_failures_leave_the_other_rows_short() -> None:
    """A healthy worker always has some."""
    rows: list[NotedRow] = [RECEIVED, DELIVERED] * 600
    rows[300:300] = rows[800:800] = [FAILED, RECEIVED, FAILED]

    kept = sum(len(values) for _, values in inserts(rows))

    assert kept == 5 * 602 + 16 * 4 + 9 * 600


def test_rows_of_a_long_time_keep_their_order() -> None:
    """By it a reader finds the rows of a time; a batch may span hours while the store was away."""
    rows: list[NotedRow] = [row._replace(at=60.0 * n) for n in range(150) for row in (RECEIVED, DELIVERED)]

    assert written(rows) == list(map(whole, rows))


def test_a_statement_has_a_bounded_number_of_rows() -> None:
    """SQLite takes 32,766 values in one."""
    sizes = [len(values) // 9 for _, values in inserts([DELIVERED] * (2 * ROWS_AT_ONCE + 1))]

    assert sizes == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
