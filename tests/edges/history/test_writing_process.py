"""The child that writes the history: killed, signalled, hung, refused, and left by its worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query
from consumer.edges.history import history_writer, writing_process
from consumer.edges.history.history_store import Limits
from consumer.edges.history.history_writer import HistoryWriter
from consumer.edges.history.sqlite_history import FILE_NAME
from consumer.edges.history.statements import WRITER_KEPT_S, WRITERS
from consumer.edges.history.writing_child import Write
from consumer.edges.history.writing_process import WritingProcess
from consumer.flow.observe.observer import Observer
from consumer.settings.load import child_environment
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.processes.children import lives, wait_until
from tests.support.stores import Place

NOW = 1_767_225_600.0
WAIT_S = 30.0
ROW = HistoryRow(NOW, "attempt", "ord-1", "acme", "order.created", "sub_1", number=1)
KEEP = Limits(max_age_s=86_400, max_rows=1_000_000)

#: A worker that asks its child to write a row, shows the child's process id, and hangs.
WORKER = """
import asyncio, sys, time
from pathlib import Path
from types import ModuleType
from typing import Any
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.edges.history.writing_child import Write
from consumer.edges.history.statements import WRITER_KEPT_S, WRITERS
from consumer.edges.history.writing_process import WritingProcess
from consumer.settings.load import child_environment

process = WritingProcess(Path(sys.argv[1]), 5.0, child_environment())
batches = [HistoryBatch([HistoryRow(1.0, "settled", f"ord-{number}")]) for number in (1, 2)]
asyncio.run(process.write(1, batches[0]))
child = process._child
child.connection.send(Write(2, batches[1]))
print(child.process.pid, flush=True)
time.sleep(1000)
"""


@pytest_asyncio.fixture
async def target(sql_place: Place) -> AsyncIterator[WritingProcess]:
    """A writer of a SQLite file."""
    target = started(sql_place)
    yield target
    await target.close()


def started(place: Place) -> WritingProcess:
    """Return a writer of a place's history."""
    return WritingProcess(place.home, 30.0, child_environment())


def child_of(target: WritingProcess) -> subprocess.Popen[bytes]:
    """Return the running child."""
    assert target._child is not None
    return target._child.process


async def written(place: Place) -> list[str]:
    """Return the event ids of all rows."""
    return [step.row.event_id for step in await place.open_history().steps(Query())]


def batch(number: int) -> HistoryBatch:
    """Return a batch with one row."""
    return HistoryBatch([ROW._replace(event_id=f"ord-{number}")])


async def gone(pid: int) -> bool:
    """Return whether a process ends in time; a zombie has ended."""
    return await wait_until(lambda: not lives(pid), WAIT_S)


async def test_rows_are_written_and_deleted(target: WritingProcess, sql_place: Place) -> None:
    """Both requests have the answers of the history itself."""
    assert not await target.trim(KEEP, NOW)
    for number in range(1, 4):
        await target.write(number, batch(number))

    assert await written(sql_place) == ["ord-1", "ord-2", "ord-3"]
    assert await target.trim(KEEP._replace(max_rows=1), NOW)
    assert await written(sql_place) == ["ord-3"]


async def test_a_killed_child_is_replaced_and_writes_no_batch_twice(
    target: WritingProcess, sql_place: Place
) -> None:
    """Fault 68: its end is one failed write, and the number of the batch outlives it."""
    await target.write(1, batch(1))
    child_of(target).kill()

    with pytest.raises(StoreUnavailable, match=r"was ended by signal 9: .*; the next write"):
        await target.write(1, batch(1))
    await target.write(1, batch(1))
    await target.write(2, batch(2))

    assert await written(sql_place) == ["ord-1", "ord-2"]


async def test_signals_do_not_end_the_child(target: WritingProcess, sql_place: Place) -> None:
    """A service manager and a terminal signal every process of a worker; the drain needs this one."""
    await target.write(1, batch(1))
    child = child_of(target)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child.send_signal(number)

    await target.write(2, batch(2))

    assert child_of(target) is child
    assert await written(sql_place) == ["ord-1", "ord-2"]
    assert os.getpgid(child.pid) != os.getpgid(0)


async def test_a_cancelled_write_takes_no_later_answer(
    target: WritingProcess, sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends its routine in the middle of a write, and then writes the rest."""
    await target.write(1, batch(1))
    sent, send = threading.Event(), Connection.send

    def note(connection: Connection, message: object) -> None:
        send(connection, message)
        sent.set()

    monkeypatch.setattr(Connection, "send", note)
    child_of(target).send_signal(signal.SIGSTOP)
    write = asyncio.create_task(target.write(2, batch(2)))
    assert await asyncio.to_thread(sent.wait, WAIT_S)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    child_of(target).send_signal(signal.SIGCONT)

    await target.write(2, batch(2))

    assert await written(sql_place) == ["ord-1", "ord-2"]
    assert await target.trim(KEEP._replace(max_rows=1), NOW)
    assert await written(sql_place) == ["ord-2"]


async def test_refused_rows_are_refused(target: WritingProcess, sql_place: Place) -> None:
    """The writer halves a refused batch only because of the type of the error."""
    with pytest.raises(ValueError, match=r"history\.db"):
        await target.write(1, HistoryBatch([ROW._replace(detail="half a character: \ud800")]))
    await target.write(2, batch(2))

    assert await written(sql_place) == ["ord-2"]


async def test_a_bug_in_the_child_does_not_end_it(target: WritingProcess, sql_place: Place) -> None:
    """It is reported with its type, and the next request is answered."""
    await target.write(1, batch(1))
    child = child_of(target)

    with pytest.raises(RuntimeError, match="AttributeError"):
        await target.trim(None, NOW)  # type: ignore[arg-type] # the bug
    await target.write(2, batch(2))

    assert child_of(target) is child
    assert await written(sql_place) == ["ord-1", "ord-2"]


async def test_a_worker_that_is_killed_leaves_no_child_and_its_last_rows(sql_place: Place) -> None:
    """The child writes what it got, and closes the file: the log of SQLite is gone."""
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, str(sql_place.home)),
        stdout=subprocess.PIPE,
        env=child_environment(),
    )
    assert worker.stdout is not None
    child = int(await worker.stdout.readline())
    worker.kill()
    await worker.wait()

    assert await gone(child)
    assert not (sql_place.home / f"{FILE_NAME}-wal").exists()
    assert await written(sql_place) == ["ord-1", "ord-2"]


async def test_rows_after_the_end_of_a_child_are_written_at_the_end_of_the_worker(sql_place: Place) -> None:
    """Fault 68: only the first write fails."""
    target, series = started(sql_place), Series(CollectorRegistry())
    writer = HistoryWriter(target, KEEP, Observer(series, RecordingLog()), lambda: NOW)
    writer.note(ROW)
    assert await writer.flush()
    child_of(target).kill()
    await asyncio.to_thread(child_of(target).wait)
    writer.note(ROW._replace(event_id="ord-2"))

    await writer.finish()

    assert await written(sql_place) == ["ord-1", "ord-2"]
    assert not series.registry.get_sample_value("leveret_history_dropped_total", {"reason": "stopped"})


async def test_a_child_that_does_not_end_is_killed(sql_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a bounded time for its last writes."""
    monkeypatch.setattr(writing_process, "END_S", 0.1)
    target = started(sql_place)
    await target.write(1, batch(1))
    child = child_of(target)
    child.send_signal(signal.SIGSTOP)

    await target.close()

    assert child.returncode == -signal.SIGKILL


async def test_a_child_of_another_version_is_reported(
    sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New files were installed beside a running worker: the child does not know what the worker sends."""
    newer = ModuleType("consumer.newer")
    monkeypatch.setitem(sys.modules, newer.__name__, newer)
    newer.Write = type("Write", (Write,), {"__module__": newer.__name__})  # type: ignore[attr-defined] # new
    monkeypatch.setattr(writing_process, "Write", newer.Write)
    target = started(sql_place)

    with pytest.raises(StoreUnavailable, match=r"cannot read its requests: .*; restart the worker"):
        await target.write(1, batch(1))

    await target.close()


async def test_a_signal_does_not_end_a_child_that_starts(
    sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot ignore signals before its program runs."""
    start = WritingProcess._start

    def start_and_signal(target: WritingProcess) -> Any:
        child = start(target)
        child.process.send_signal(signal.SIGTERM)
        return child

    monkeypatch.setattr(WritingProcess, "_start", start_and_signal)
    target = started(sql_place)

    await target.write(1, batch(1))

    assert await written(sql_place) == ["ord-1"]
    await target.close()


async def test_a_writer_is_forgotten_after_a_day(target: WritingProcess, sql_place: Place) -> None:
    """Each start of a worker is a writer of its own."""
    await target.write(1, batch(1))
    with closing(sqlite3.connect(sql_place.home / FILE_NAME, isolation_level=None)) as other:
        other.execute(f"INSERT INTO {WRITERS} SELECT 'old', 1, at - ? FROM {WRITERS}", (WRITER_KEPT_S + 60,))  # noqa: S608 (constants of ours)
        assert not await target.trim(KEEP, NOW)
        kept = [name for (name,) in other.execute(f"SELECT writer FROM {WRITERS}")]  # noqa: S608 (as above)

    assert len(kept) == 1
    assert kept != ["old"]


async def test_a_child_that_hangs_is_killed_at_the_end(
    sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that does not answer delays the end of a worker by a bounded time; its rows are counted."""
    monkeypatch.setattr(history_writer, "FINISH_S", 0.3)
    target, series = started(sql_place), Series(CollectorRegistry())
    writer = HistoryWriter(target, KEEP, Observer(series, RecordingLog()), lambda: NOW)
    writer.note(ROW)
    assert await writer.flush()
    child = child_of(target)
    child.send_signal(signal.SIGSTOP)
    writer.note(ROW)

    await writer.finish()

    assert await gone(child.pid)
    assert series.registry.get_sample_value("leveret_history_dropped_total", {"reason": "stopped"}) == 1


async def test_a_child_that_cannot_start_is_reported(
    sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of processes or memory: the deliveries go on, and a later write starts a child."""
    target = started(sql_place)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(sql_place.home / "python"))
        with pytest.raises(StoreUnavailable, match=r"cannot be started: .*; let the worker start processes"):
            await target.write(1, batch(1))

    await target.write(1, batch(1))

    assert await written(sql_place) == ["ord-1"]
    await target.close()


def test_the_child_is_small() -> None:
    """A worker has one: no SQLAlchemy and no pydantic for a SQLite file."""
    code = "import consumer.edges.history.writing_child, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=child_environment()
    )

    assert not {"sqlalchemy", "pydantic", "asyncpg"} & set(run.stdout.split())
