"""The log has its own thread: an unread log stops no delivery (fault 93)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO, cast

import pytest

from consumer.edges.process import log_writer
from consumer.edges.process.log_writer import BUFFER_BYTES, FLUSH_S, HAND_OVER_BYTES, LogWriter

LINE = b"x" * 1023
PATIENCE_S = 60.0


def lost(lines: int) -> bytes:
    """Return the note in the place of dropped lines."""
    return b"lost %d" % lines


def test_lines_come_in_their_order(tmp_path: Path) -> None:
    """Lines that wait to be written together come before the warning that is written at once."""
    path = tmp_path / "log"
    with path.open("wb") as target:
        writer = LogWriter(target, lost)
        for number in range(1000):
            writer.info(b"%d" % number)
        writer.warning(b"1000")
        assert writer.flush(PATIENCE_S)
        writer.close(PATIENCE_S)

    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(1001))
    assert writer.dropped == 0


def test_an_unread_pipe_keeps_a_bounded_buffer_and_a_count() -> None:
    """No call waits; dropped lines are counted, and notes in their places give the same number."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb") as target:
        writer = LogWriter(target, lost)
        offered = 3 * BUFFER_BYTES // (len(LINE) + 1)
        for _ in range(offered):
            writer.warning(LINE)
        assert not writer.flush(0)
        dropped = writer.dropped
        assert offered // 2 < dropped < offered

        lines: list[bytes] = []
        reading = threading.Thread(target=lambda: lines.extend(reader.readlines()))
        reading.start()
        assert writer.flush(PATIENCE_S)
        writer.warning(b"the end")
        writer.close(PATIENCE_S)
        target.close()
        reading.join(PATIENCE_S)

    kept = lines.count(LINE + b"\n")
    assert kept + dropped == offered
    notes = [int(line.split()[1]) for line in lines if line.startswith(b"lost ")]
    assert sum(notes) == dropped
    assert lines[-1] == b"the end\n"


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    """/dev/full refuses every byte; flushing and closing return."""
    with Path("/dev/full").open("wb", buffering=0) as target:
        writer = LogWriter(target, lost)
        writer.warning(LINE)
        assert writer.flush(PATIENCE_S)
        writer.close(PATIENCE_S)

    assert writer.dropped == 1


@pytest.mark.parametrize("lines", [1, 20_000])
def test_a_process_with_an_unread_log_ends(lines: int) -> None:
    """At its end it waits for the reader for a moment, and then ends without a word of the interpreter."""
    script = (
        "import sys, structlog; from consumer.edges.process import logs; logs.configure('info', 'json');"
        f"log = structlog.get_logger(); [log.warning('a.b', text='x' * 1000) for _ in range({lines})]"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    try:
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert b"Fatal" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_lines_of_several_threads_are_whole(tmp_path: Path) -> None:
    """Each line of each thread comes once, in the order of its thread, while others are being written."""
    path, each = tmp_path / "log", 5_000
    with path.open("wb") as target:
        writer = LogWriter(target, lost)

        def log(name: int) -> None:
            for number in range(each):
                (writer.warning if number % 7 == 0 else writer.info)(b"%d %d" % (name, number))

        threads = [threading.Thread(target=log, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        writer.close(PATIENCE_S)

    lines = [tuple(map(int, line.split())) for line in path.read_bytes().splitlines()]
    assert writer.dropped == 0
    for name in range(4):
        assert [number for who, number in lines if who == name] == list(range(each))


def test_a_line_within_a_line_does_not_block() -> None:
    """The collector may run a finalizer that logs while a line is added (fault 93)."""
    script = (
        "import sys; from consumer.edges.process.log_writer import LogWriter\n"
        "class Line(bytes):\n"
        "    def __len__(self): writer.info(b'inner'); return super().__len__()\n"
        "writer = LogWriter(sys.stdout.buffer, bytes)\n"
        "writer.info(Line(b'outer'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == b"inner\nouter\n"


class Disk:
    """A stream in memory that may be full for some writes."""

    def __init__(self) -> None:
        self.text = b""
        self.full_for = 0  #: writes

    def fileno(self) -> int:
        raise OSError

    def write(self, data: memoryview) -> int:
        if self.full_for:
            self.full_for -= 1
            raise OSError(errno.ENOSPC, "full")
        self.text += bytes(data)
        return len(data)


class SlowDisk(Disk):
    """Ends no write before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.may_write = threading.Event(), threading.Event()

    def write(self, data: memoryview) -> int:
        self.writing.set()
        assert self.may_write.wait(PATIENCE_S)
        return super().write(data)


class HeldDisk(Disk):
    """Ends one write for each permission."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.permission = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, data: memoryview) -> int:
        self.begun.release()
        assert self.permission.acquire(timeout=PATIENCE_S)
        return super().write(data)


def _writer(disk: Disk) -> LogWriter:
    return LogWriter(cast("BinaryIO", disk), lost)


def _wait_for(disk: Disk, text: bytes) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while disk.text != text:
        assert time.monotonic() < deadline, disk.text
        time.sleep(0.001)


def test_a_warning_is_written_at_once() -> None:
    """No later line and no flush is needed."""
    writer = _writer(disk := Disk())
    writer.warning(b"a warning")
    _wait_for(disk, b"a warning\n")
    writer.close(PATIENCE_S)


def test_a_line_waits_for_others_until_the_next_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line after a tenth of a second takes the earlier ones with it."""
    writer = _writer(disk := Disk())
    now = 1_000.0
    monkeypatch.setattr(log_writer, "time", SimpleNamespace(monotonic=lambda: now))
    writer.info(b"1")
    _wait_for(disk, b"1\n")
    for line in (b"2", b"3"):
        writer.info(line)
    assert disk.text == b"1\n"
    now += FLUSH_S * 1.01
    writer.info(b"4")
    _wait_for(disk, b"1\n2\n3\n4\n")
    writer.close(PATIENCE_S)


def test_the_note_comes_as_soon_as_there_is_room() -> None:
    """The lost line does not come later, and no further line is needed."""
    writer = _writer(disk := Disk())
    disk.full_for = 2
    writer.warning(b"is lost")
    _wait_for(disk, b"lost 1\n")
    writer.warning(b"next")
    _wait_for(disk, b"lost 1\nnext\n")
    writer.close(PATIENCE_S)
    assert writer.dropped == 1


def test_lines_after_the_end_are_counted() -> None:
    """Whether they come while the disk is full, or after the end."""
    writer = _writer(disk := Disk())
    disk.full_for = 1_000
    for _ in range(3):
        writer.warning(b"a line")
    writer.close(PATIENCE_S)
    writer.info(b"too late")
    assert writer.dropped == 4
    assert writer.flush(PATIENCE_S)


def test_a_flush_takes_lines_that_come_meanwhile() -> None:
    """A line that another thread adds during a write does not delay the flush until its limit."""
    writer = _writer(disk := SlowDisk())
    writer.warning(b"1")
    assert disk.writing.wait(PATIENCE_S)
    flushing = threading.Thread(target=writer.flush, args=(10 * PATIENCE_S,))
    flushing.start()
    writer.info(b"2")
    disk.may_write.set()
    flushing.join(PATIENCE_S)
    assert not flushing.is_alive()
    assert disk.text == b"1\n2\n"
    writer.close(PATIENCE_S)


def test_many_lines_do_not_wait_for_the_next_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tenth of a second there may be more lines than the buffer takes: they are written before."""
    writer = _writer(disk := Disk())
    monkeypatch.setattr(log_writer, "time", SimpleNamespace(monotonic=lambda: 1_000.0))
    writer.info(b"1")
    _wait_for(disk, b"1\n")
    lines = [LINE] * (HAND_OVER_BYTES // (len(LINE) + 1) + 1)
    for line in lines:
        writer.info(line)
    _wait_for(disk, b"\n".join([b"1", *lines, b""]))
    writer.close(PATIENCE_S)
    assert writer.dropped == 0


def test_a_burst_does_not_keep_its_memory() -> None:
    """Lines that waited for a slow disk are given back once it has taken them."""
    writer = _writer(disk := SlowDisk())
    tracemalloc.start()
    for _ in range(3):
        disk.writing.clear()
        disk.may_write.clear()
        writer.warning(b"first")
        assert disk.writing.wait(PATIENCE_S)
        for number in range(BUFFER_BYTES // (len(LINE) + 1) - 1):
            writer.info(b"%07d" % number + LINE[7:])
        disk.may_write.set()
        assert writer.flush(PATIENCE_S)
        disk.text = b""
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    writer.close(PATIENCE_S)

    assert writer.dropped == 0
    assert held < BUFFER_BYTES // 8


def test_a_slow_disk_keeps_no_line_in_memory_twice() -> None:
    """While a full buffer is being written, only its text is in memory, not its lines too."""
    writer = _writer(disk := HeldDisk())
    writer.warning(b"first")
    assert disk.begun.acquire(timeout=PATIENCE_S)
    tracemalloc.start()
    for number in range(BUFFER_BYTES // (len(LINE) + 1) - 1):
        writer.info(b"%07d" % number + LINE[7:])
    disk.permission.release()
    assert disk.begun.acquire(timeout=PATIENCE_S)  # the write of all these lines
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    disk.permission.release(10)
    writer.close(PATIENCE_S)

    assert writer.dropped == 0
    assert 0.9 * BUFFER_BYTES < held < 1.25 * BUFFER_BYTES
