"""The child that writes the history: killed, signalled, hung, refused, and left by its worker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query
from consumer.edges.history import history_writer
from consumer.edges.history.history_store import Limits
from consumer.edges.history.history_writer import HistoryWriter
from consumer.edges.history.place import HistoryPlace
from consumer.edges.history.sqlite_history import FILE_NAME
from consumer.edges.history.writing_process import WritingProcess
from consumer.flow.observe.observer import Observer
from consumer.settings.load import child_environment
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.processes.children import wait_until
from tests.support.stores import Place

NOW = 1_767_225_600.0
WAIT_S = 30.0
ROW = HistoryRow(NOW, "attempt", "ord-1", "acme", "order.created", "sub_1", number=1)
KEEP = Limits(max_age_s=86_400, max_rows=1_000_000)

#: A worker that asks its child to write a row, shows the child's process id, and hangs.
WORKER = """
import asyncio, sys, time
from pathlib import Path
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.edges.history.place import HistoryPlace
from consumer.edges.history.writing_child import Write
from consumer.edges.history.writing_process import WritingProcess
from consumer.settings.load import child_environment

process = WritingProcess(HistoryPlace(Path(sys.argv[1]), None, 5.0), child_environment())
batches = [HistoryBatch([HistoryRow(1.0, "settled", f"ord-{number}")]) for number in (1, 2)]
asyncio.run(process.write(1, batches[0]))
child = process._child
child.connection.send(Write(2, batches[1]))
print(child.process.pid, flush=True)
time.sleep(1000)
"""


@pytest_asyncio.fixture
async def target(place: Place) -> AsyncIterator[WritingProcess]:
    """A child for each kind of database in turn."""
    target = started(place)
    yield target
    await target.close()


def started(place: Place) -> WritingProcess:
    """Return a writer of a place's history."""
    return WritingProcess(HistoryPlace(place.home, place.url or None, 30.0), child_environment())


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

    def has_ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return await wait_until(has_ended, WAIT_S)


async def test_rows_are_written_and_deleted(target: WritingProcess, place: Place) -> None:
    """Both requests have the answers of the history itself."""
    assert not await target.trim(KEEP, NOW)
    for number in range(1, 4):
        await target.write(number, batch(number))

    assert await written(place) == ["ord-1", "ord-2", "ord-3"]
    assert await target.trim(KEEP._replace(max_rows=1), NOW)
    assert await written(place) == ["ord-3"]


async def test_a_killed_child_is_replaced_and_writes_no_batch_twice(
    target: WritingProcess, place: Place
) -> None:
    """Fault 68: its end is one failed write, and the number of the batch outlives it."""
    await target.write(1, batch(1))
    child_of(target).kill()

    with pytest.raises(StoreUnavailable, match="ended with exit code -9; the next write starts another one"):
        await target.write(1, batch(1))
    await target.write(1, batch(1))
    await target.write(2, batch(2))

    assert await written(place) == ["ord-1", "ord-2"]


async def test_signals_do_not_end_the_child(target: WritingProcess, place: Place) -> None:
    """A service manager and a terminal signal every process of a worker; the drain needs this one."""
    await target.write(1, batch(1))
    child = child_of(target)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child.send_signal(number)

    await target.write(2, batch(2))

    assert child_of(target) is child
    assert await written(place) == ["ord-1", "ord-2"]
    assert os.getpgid(child.pid) != os.getpgid(0)


async def test_a_cancelled_write_takes_no_later_answer(target: WritingProcess, place: Place) -> None:
    """The worker ends its routine in the middle of a write, and then writes the rest."""
    await target.write(1, batch(1))
    child_of(target).send_signal(signal.SIGSTOP)
    write = asyncio.create_task(target.write(2, batch(2)))
    await asyncio.sleep(0)  # it is in the thread now
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    child_of(target).send_signal(signal.SIGCONT)

    await target.write(2, batch(2))
    assert await target.trim(KEEP._replace(max_rows=1), NOW)

    assert await written(place) == ["ord-2"]


async def test_refused_rows_are_refused(target: WritingProcess, place: Place) -> None:
    """The writer halves a refused batch only because of the type of the error."""
    with pytest.raises(ValueError, match=r"history\.db|postgresql"):
        await target.write(1, HistoryBatch([ROW._replace(detail="half a character: \ud800")]))
    await target.write(2, batch(2))

    assert await written(place) == ["ord-2"]


async def test_a_bug_in_the_child_does_not_end_it(target: WritingProcess, place: Place) -> None:
    """It is reported with its type, and the next request is answered."""
    await target.write(1, batch(1))
    child = child_of(target)

    with pytest.raises(RuntimeError, match="AttributeError"):
        await target.trim(None, NOW)  # type: ignore[arg-type] # the bug
    await target.write(2, batch(2))

    assert child_of(target) is child
    assert await written(place) == ["ord-1", "ord-2"]


async def test_a_worker_that_is_killed_leaves_no_child_and_its_last_rows(sql_place: Place) -> None:
    """What was sent is written, and the file is closed: its log is gone."""
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


async def test_a_child_that_hangs_is_killed_at_the_end(
    sql_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stuck disk delays the end of a worker by a bounded time, and its rows are counted."""
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


def test_the_child_is_small_and_the_password_hidden() -> None:
    """A worker has one: no SQLAlchemy and no pydantic for a SQLite file."""
    code = "import consumer.edges.history.writing_child, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=child_environment()
    )

    assert not {"sqlalchemy", "pydantic", "asyncpg"} & set(run.stdout.split())
    assert "hush" not in repr(HistoryPlace(Path(), "postgresql://shop:hush@db/shop", 5.0))
