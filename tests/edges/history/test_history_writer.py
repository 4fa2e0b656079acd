"""The writer of the history: beside the deliveries, bounded, and each row is written or counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from consumer.core.history.batch import received_row
from consumer.core.history.records import ANSWER_BYTES, DETAIL_MAX, HistoryRow, parted
from consumer.core.model import Attempt, OutcomeKind
from consumer.edges.history import history_writer
from consumer.edges.history.history_store import Limits
from consumer.edges.history.history_writer import BATCH_ROWS, BYTES_MAX, ROWS_MAX, HistoryWriter
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.fakes_store import MemoryHistoryStore
from tests.support.system.waiting import until
from tests.support.worker import event

LIMITS = Limits(86_400, 1_000)


class Desk:
    """A writer with its store, metrics and log."""

    def __init__(self, answer_bytes: int = ANSWER_BYTES) -> None:
        self.store = MemoryHistoryStore()
        self.series = Series(CollectorRegistry())
        self.log = RecordingLog()
        self.observe = Observer(self.series, self.log)
        self.writer = HistoryWriter(self.store, LIMITS, self.observe, lambda: 7.0, answer_bytes)

    def note(self, count: int, start: int = 0) -> None:
        """Note so many rows."""
        for number in range(start, start + count):
            self.writer.note(row(number))

    def dropped(self, reason: str) -> int:
        """Return how many rows were counted."""
        found = self.series.registry.get_sample_value("leveret_history_dropped_total", {"reason": reason})
        return int(found or 0)

    def all_dropped(self) -> int:
        """Return how many rows were counted for any reason."""
        return sum(self.dropped(reason) for reason in ("full", "refused", "stopped"))


def row(number: int, answer: bytes | None = None) -> HistoryRow:
    """A row."""
    return HistoryRow(float(number), "attempt", f"ord-{number}", answer=answer)


async def test_rows_are_written_in_batches_in_their_order() -> None:
    """A batch has a bounded number of rows."""
    desk = Desk()
    desk.note(BATCH_ROWS + 5)

    assert await desk.writer.flush()
    assert len(desk.store.rows) == BATCH_ROWS
    assert await desk.writer.flush()

    assert desk.store.rows == [row(n) for n in range(BATCH_ROWS + 5)]
    assert desk.all_dropped() == 0


async def test_a_batch_is_kept_until_the_store_takes_it() -> None:
    """It is neither lost nor written twice, even where the store does not hear that it has it."""
    desk = Desk()
    desk.store.faults = ["away", "unheard"]
    desk.note(10)

    assert [await desk.writer.flush() for _ in range(3)] == [False, False, True]

    assert desk.store.rows == [row(n) for n in range(10)]
    assert desk.all_dropped() == 0
    assert len(desk.log.events("history.failed")) == 1
    assert len(desk.log.events("history.recovered")) == 1


async def test_a_row_without_room_is_dropped_and_counted() -> None:
    """The deliveries go on while the store is away; the counter states how many rows are missing."""
    desk = Desk()
    desk.store.faults = ["away"]
    desk.note(ROWS_MAX)
    assert not await desk.writer.flush()
    desk.note(BATCH_ROWS + 50, ROWS_MAX)

    await desk.writer.finish()

    assert desk.dropped("full") == 50
    assert desk.store.rows == [row(n) for n in range(ROWS_MAX + BATCH_ROWS)]


async def test_long_answers_leave_room_for_fewer_rows() -> None:
    """Answers may not take the memory of the worker, however long the settings allow them to be."""
    desk = Desk(answer_bytes=16_384)
    room = BYTES_MAX // (16_384 + DETAIL_MAX)
    desk.note(room + 3)
    assert desk.dropped("full") == 3

    assert await desk.writer.flush()
    desk.note(1)

    assert desk.dropped("full") == 3


async def test_smaller_batches_are_written_one_after_the_other() -> None:
    """With long answers a batch has fewer rows; the writer gathers again only when less than one is left."""
    desk = Desk(answer_bytes=16_384)
    room = BYTES_MAX // (16_384 + DETAIL_MAX)
    desk.note(room)

    assert await desk.writer.flush()
    assert len(desk.store.rows) == room // 4
    assert await desk.writer._write_all()

    assert room - len(desk.store.rows) < room // 4


async def test_a_batch_takes_rows_for_a_bounded_time() -> None:
    """A reader finds the rows of a time by their order; while a store is away, rows of hours gather."""
    desk = Desk()
    for number, seconds in enumerate((0.0, 30.0, 61.0, 62.0, 200.0)):
        desk.writer.monotonic = partial(float, seconds)
        desk.writer.note(row(number))

    written: list[int] = []
    while await desk.writer.flush() and len(desk.store.rows) > sum(written):
        written.append(len(desk.store.rows) - sum(written))

    assert written == [2, 2, 1]
    assert desk.store.rows == [row(number) for number in range(5)]


def arrives(desk: Desk, number: int) -> HistoryRow:
    """An event is taken; return the row of that."""
    taken = replace(event(id=f"ord-{number}"), arrived_at=1.0)
    desk.writer.note_arrival(taken, 1)
    return received_row(taken, 1)


def is_delivered(desk: Desk, number: int) -> HistoryRow:
    """Its first attempt delivers; return the row of that."""
    taken = replace(event(id=f"ord-{number}"), arrived_at=1.0)
    desk.writer.note_delivery(taken, "sub_1", Attempt(1, 1.5, OutcomeKind.OK, 200, 0.25), b"ok", "")
    ids = taken.id, taken.tenant, taken.type
    return HistoryRow(1.5, "attempt", *ids, "sub_1", "", 1, "ok", 200, 250.0, None, "delivered", "", b"ok")


async def test_an_event_that_is_delivered_at_once_takes_the_room_of_one_row() -> None:
    """Its arrival and its attempt are joined; the room is free again once the row is written."""
    desk = Desk()
    for number in range(ROWS_MAX + 1_000):
        arrives(desk, number)
        is_delivered(desk, number)
        if number % 4_000 == 0:
            assert await desk.writer.flush()

    await desk.writer.finish()

    assert desk.all_dropped() == 0
    assert [row.wait_ms for row in desk.store.rows] == [500.0] * (ROWS_MAX + 1_000)


def notes(desk: Desk, number: int) -> HistoryRow:
    """Another step."""
    desk.writer.note(row(number))
    return row(number)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from((arrives, is_delivered, notes)), st.integers(0, 3)),
            st.sampled_from(["", "away", "refuses", "unheard"]),
        ),
        max_size=30,
    )
)
async def test_each_step_is_written_once(
    steps: Sequence[str | tuple[Callable[[Desk, int], HistoryRow], int]],
) -> None:
    """S1-2: joined or not, in one batch or in two, whatever the store answers."""
    desk, noted = Desk(), list[HistoryRow]()
    for step in steps:
        if isinstance(step, str):
            desk.store.faults = [step]
            await desk.writer.flush()
        else:
            noted.append(step[0](desk, step[1]))
    desk.store.faults = []
    await desk.writer.finish()

    missing = Counter(noted)
    missing.subtract(parted(desk.store.rows))
    assert min(missing.values(), default=0) >= 0
    assert desk.dropped("refused") <= missing.total() <= 2 * desk.dropped("refused")
    assert desk.writer._held == 0


async def test_only_the_rows_that_are_refused_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other rows of their batch are written in their order, also if the store is away in between."""
    monkeypatch.setattr(history_writer, "BATCH_ROWS", 1_000)
    desk = Desk()
    desk.store.refused = {"ord-7", "ord-8", "ord-999"}
    desk.store.faults = ["", "", "away", *[""] * 5, "unheard"]  # rows 0 to 6 are unheard
    desk.note(1_002)

    assert [await desk.writer.flush() for _ in range(4)] == [False, False, True, True]

    assert desk.dropped("refused") == 3
    assert desk.store.rows == [row(n) for n in range(1_002) if f"ord-{n}" not in desk.store.refused]
    assert len(desk.log.events("history.failed")) == 2
    assert len(desk.log.events("history.recovered")) == 1


async def test_each_text_of_a_row_is_printable() -> None:
    """PostgreSQL takes neither a NUL nor half a character; bytes of an answer stay as they are."""
    desk = Desk()
    bad = HistoryRow(1.0, "attempt", "a\0b", "acme", "t\ud800", detail="\x1b" * DETAIL_MAX, answer=b"\0")
    desk.writer.note(bad._replace(answer_type="text/\n"))
    desk.writer.note_arrival(event(tenant="acme\0"), 1)
    desk.writer.note(row(1))
    await desk.writer.flush()

    short, safe, same = desk.store.rows
    assert short.tenant == r"acme\x00"
    assert (safe.event_id, safe.type, safe.answer_type) == (r"a\x00b", r"t\ud800", r"text/\n")
    assert safe.detail == (r"\x1b" * DETAIL_MAX)[:DETAIL_MAX]
    assert (safe.answer, same) == (b"\0", row(1))


async def test_the_end_writes_the_rest() -> None:
    """Nothing is left, and the store is closed."""
    desk = Desk()
    desk.note(2 * BATCH_ROWS + 1)

    await desk.writer.finish()

    assert len(desk.store.rows) == 2 * BATCH_ROWS + 1
    assert desk.store.closed
    assert desk.all_dropped() == 0


async def test_the_end_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not answer delays nothing: the remaining rows are counted."""
    monkeypatch.setattr(history_writer, "FINISH_S", 0.05)
    desk = Desk()
    desk.store.gate.clear()
    desk.note(7)

    await desk.writer.finish()

    assert desk.dropped("stopped") == 7
    assert desk.store.closed


async def test_a_write_that_is_cancelled_at_the_end_is_not_lost() -> None:
    """The routine is cancelled before the rest is written."""
    desk = Desk()
    desk.store.gate.clear()
    desk.note(4)
    running = asyncio.create_task(desk.writer.run())
    await asyncio.sleep(history_writer.GATHER_S * 1.5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    desk.store.gate.set()

    await desk.writer.finish()

    assert desk.store.rows == [row(n) for n in range(4)]
    assert desk.all_dropped() == 0


async def test_a_failed_write_is_tried_again_without_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 68: the last rows of a quiet worker do not wait for the next ones, or for the next trim."""
    monkeypatch.setattr(history_writer, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(history_writer, "TRIM_EVERY_S", 3_600.0)
    desk = Desk()
    desk.store.faults = ["away", "away"]
    running = asyncio.create_task(desk.writer.run())
    await asyncio.wait_for(desk.store.trimmed.wait(), 30)
    desk.note(1)

    await until(lambda: desk.store.rows == [row(0)], "the row is written")

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def block(seconds: float) -> None:
    """Keep the loop busy in steps of 20 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)  # noqa: ASYNC251 (the loop is to lag)
        await asyncio.sleep(0)


async def test_a_busy_loop_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-6: a burst of deliveries shares its processor with no batch; its rows are written after it."""
    monkeypatch.setattr(history_writer, "PATIENCE_S", 600.0)
    desk = Desk()
    running = asyncio.create_task(desk.writer.run())
    await desk.store.trimmed.wait()
    desk.note(100)

    await block(4 * history_writer.GATHER_S)
    assert desk.store.rows == []

    await until(lambda: len(desk.store.rows) == 100)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("count", "patience_s"), [(5, 0.1), (ROWS_MAX // 2, 600.0)])
async def test_a_busy_loop_delays_rows_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, count: int, patience_s: float
) -> None:
    """A batch waits for neither the end of a long load nor the last free row of the memory."""
    monkeypatch.setattr(history_writer, "PATIENCE_S", patience_s)
    desk = Desk()
    desk.note(count)
    running, load = asyncio.create_task(desk.writer.run()), asyncio.create_task(block(float("inf")))

    await until(lambda: len(desk.store.rows) == count)

    for task in (running, load):
        task.cancel()
    await asyncio.gather(running, load, return_exceptions=True)


async def test_the_routine_writes_and_deletes_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written between two deletions, and it looks until nothing is left to delete."""
    monkeypatch.setattr(history_writer, "TRIM_PAUSE_S", 0.001)
    desk = Desk()
    desk.note(4)
    running = asyncio.create_task(desk.writer.run())
    async with asyncio.timeout(10):
        await desk.store.trimmed.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert desk.store.rows == [row(n) for n in range(4)]
    assert desk.store.trims == [(LIMITS, 7.0)] * 3


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3_000), st.sampled_from(["", "away", "refuses", "unheard"])), max_size=15
    )
)
async def test_each_row_is_written_or_counted(steps: list[tuple[int, str]]) -> None:
    """For every behaviour of the store: each missing row is counted, and none is there twice."""
    desk = Desk()
    noted = 0
    for count, fault in steps:
        desk.note(count, noted)
        noted += count
        desk.store.faults = [fault]
        await desk.writer.flush()
    desk.store.faults = []
    await desk.writer.finish()

    assert len(desk.store.rows) + desk.all_dropped() == noted
    assert len(set(desk.store.rows)) == len(desk.store.rows)
