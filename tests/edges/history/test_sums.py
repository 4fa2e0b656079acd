"""Sums that SQLite and PostgreSQL compute equal the sum of the rows, one after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer.core.history.activity import HOUR_S, HOURS, MINUTE_S, Activity
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import LIMIT_MAX, HistoryRow, Query, Step
from consumer.core.history.sums import LATENCY_BOUNDS_MS, Part
from consumer.edges.history.history_store import SumReader
from consumer.edges.history.sqlite_history import FILE_NAME
from consumer.edges.history.statements import LATE_S, TABLE
from tests.support.stores import Place, on

NOW = 1_767_225_661.5
DAY_S = HOURS * HOUR_S

AGES = st.one_of(
    st.floats(-600, 2 * HOUR_S),
    st.floats(-600, DAY_S + HOUR_S),
    st.integers(0, 70).map(lambda minute: NOW % MINUTE_S + minute * MINUTE_S),  # starts of minutes
    st.sampled_from([HOUR_S, DAY_S]),
)
LATENCIES = st.one_of(
    st.none(),
    st.floats(0, 60_000),
    st.sampled_from([*LATENCY_BOUNDS_MS, -1.0, 0.1, 1e12, float("inf")]),
)
ROWS = st.builds(
    HistoryRow,
    at=AGES.map(lambda age: NOW - age),
    step=st.one_of(st.just("attempt"), st.sampled_from([*map(str, Step), "odd"])),
    event_id=st.sampled_from(["ord-1", "ord-1", "ord-2", ""]),
    tenant=st.just("acme"),
    type=st.just("order.created"),
    delivery_id=st.just(""),
    number=st.just(1),
    wait_ms=st.none(),
    detail=st.just(""),
    answer=st.none(),
    answer_type=st.just(""),
    subscription_id=st.sampled_from(["sub_1", "sub_1", "sub_2", ""]),
    kind=st.sampled_from(["", "ok", "timeout_total"]),
    status=st.sampled_from([None, 0, 200, 503]),
    latency_ms=LATENCIES,
    reason=st.sampled_from(["delivered", "retry", "defer", "park", "drop", "Delivered", ""]),
)


async def read(reader: SumReader, numbers: range) -> Activity:
    """Add each row since a day."""
    activity = Activity()
    query = Query(after=numbers.start - 1, before=numbers.stop, since=NOW - DAY_S, limit=LIMIT_MAX)
    for step in await reader.steps(query):
        activity.add(step.seq, step.row)
    return activity


async def summed(reader: SumReader, numbers: range, rows: int) -> Activity:
    """Let the store sum up so many rows at a time."""
    activity = Activity()
    for first in numbers[::rows]:
        last = min(first + rows, numbers.stop) - 1
        for each in await reader.sums(Part(first, last, NOW - HOUR_S, NOW - DAY_S, has_hour=True)):
            activity.add_sum(each)
    return activity


def seen(activity: Activity) -> dict[str, object]:
    """Everything that an activity knows of the last day."""
    activity.forget(NOW)
    return vars(activity)


async def delete(place: Place, seqs: Sequence[int]) -> None:
    """Delete some rows."""
    text = f"DELETE FROM {TABLE} WHERE seq IN ({', '.join(map(str, [0, *seqs]))})"  # noqa: S608 (numbers)
    if place.url:
        await on(place.url, text)
        return
    with closing(sqlite3.connect(place.home / FILE_NAME)) as connection:
        connection.execute(text)
        connection.commit()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    gone=st.sets(st.integers(0, 39), max_size=5),
    part_rows=st.integers(1, 9),
)
async def test_sums_equal_those_of_the_rows(
    place: Place, rows: list[HistoryRow], gone: set[int], part_rows: int
) -> None:
    """Rows in any order of time, odd values, gaps, deleted rows, deliveries across several parts."""
    history = place.histories[0] if place.histories else place.open_history()
    reader = place.sum_readers[0] if place.sum_readers else place.open_sums()
    start = (await reader.numbers(0)).stop
    await history.write(start + 1, HistoryBatch(rows))
    numbers = range(start, (await reader.numbers(0)).stop)
    await delete(place, [numbers[each] for each in gone if each < len(numbers) - 1])

    found, expected = await summed(reader, numbers, part_rows), await read(reader, numbers)

    assert seen(found) == seen(expected)


async def test_the_numbers_of_a_day_leave_out_older_rows(place: Place) -> None:
    """A history without rows has no numbers; rows of the hour before may be among them."""
    history, reader = place.open_history(), place.open_sums()
    assert list(await reader.numbers(NOW)) == []

    await history.write(
        1, HistoryBatch([HistoryRow(NOW + n * 60, "received", f"ord-{n}") for n in range(200)])
    )

    assert await reader.numbers(0) == range(1, 201)
    assert await reader.numbers(NOW + LATE_S + 6_000) == range(101, 201)
    await delete(place, range(1, 201))
    assert list(await reader.numbers(NOW)) == []


@pytest.mark.parametrize("used", [False, True])
async def test_a_history_that_does_not_exist_has_no_numbers(place: Place, used: bool) -> None:
    """Looking creates nothing."""
    if used:
        await place.open().changed()

    assert list(await place.open_sums().numbers(NOW)) == []
    assert not (place.home / FILE_NAME).exists()


async def test_a_part_of_before_the_hour_has_no_sums_by_minute(place: Place) -> None:
    """The rows are read for the sums of the day only."""
    row = HistoryRow(NOW - 2 * HOUR_S, "attempt", "ord-1", "acme", "order.created", "sub_1", reason="retry")
    await place.open_history().write(1, HistoryBatch([row, row._replace(step="parked")]))

    sums = await place.open_sums().sums(Part(1, 2, NOW - DAY_S, NOW - DAY_S, has_hour=False))

    assert sorted(type(each).__name__ for each in sums) == ["HourSum", "Streak"]
