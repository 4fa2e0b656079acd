"""The statements of SQLite that write a batch of the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.model import Attempt, OutcomeKind
from consumer.edges.history.sqlite_inserts import ROWS_AT_ONCE, RUN_ROWS, inserts
from consumer.edges.history.statements import COLUMNS, TABLE
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


def delivers(batch: HistoryBatch, number: int) -> HistoryRow:
    """Add a first attempt that delivered; return its row."""
    attempt = Attempt(1, float(number), OutcomeKind.OK, 200, 0.25)
    batch.add_delivery(event(), "sub_1", attempt, b"\xff\0ok", "text/plain; x='?'")
    return HistoryRow(
        *(float(number), "attempt", event().id, event().tenant, event().type, "sub_1", "", 1, "ok", 200),
        *(250.0, None, "delivered", "", b"\xff\0ok", "text/plain; x='?'"),
    )


def fails(batch: HistoryBatch, number: int) -> HistoryRow:
    """Add an attempt that failed; return its row."""
    row = FAILED._replace(at=float(number))
    batch.add(row)
    return row


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from((delivers, fails)), st.integers(1, 3 * RUN_ROWS)), max_size=8))
def test_rows_are_written_whole_and_in_the_order_of_their_steps(
    runs: Sequence[tuple[Callable[[HistoryBatch, int], HistoryRow], int]],
) -> None:
    """The last row of a delivery is its last step; a short row has the same columns as the others."""
    batch = HistoryBatch()

    noted = [step(batch, number) for step, count in runs for number in range(count)]

    assert written(batch) == list(batch) == noted


def test_short_rows_bring_few_values() -> None:
    """Ten of sixteen: the others are part of the statement (decision 34)."""
    batch = HistoryBatch()
    for number in range(RUN_ROWS):
        delivers(batch, number)
    for number in range(RUN_ROWS):
        fails(batch, number)

    assert [len(values) / RUN_ROWS for _, values in inserts(batch)] == [10, 16]


def test_mixed_rows_share_a_statement() -> None:
    """A statement for each short run would take the interpreter's lock anew each time."""
    batch = HistoryBatch()
    for number in range(100):
        delivers(batch, number)
        fails(batch, number)

    assert [len(values) for _, values in inserts(batch)] == [16 * 200]


def test_arrivals_of_events_for_several_leave_the_rows_of_their_deliveries_short() -> None:
    """Steps of whole events come first, so that they cut no run."""
    batch = HistoryBatch()
    for number in range(RUN_ROWS):
        batch.add_arrival(event(id=f"ord-{number}"), 2)
        delivers(batch, number)
        delivers(batch, number)

    assert [len(values) / RUN_ROWS for _, values in inserts(batch)] == [16, 20]


def test_a_statement_has_a_bounded_number_of_rows() -> None:
    """SQLite takes 32,766 values in one."""
    batch = HistoryBatch()
    for number in range(2 * ROWS_AT_ONCE + 1):
        delivers(batch, number)

    assert [len(values) / 10 for _, values in inserts(batch)] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
