"""The log has its own thread: an unread log stops no delivery (fault 93)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from consumer.edges.process.log_writer import BUFFER_BYTES, KEPT_BYTES, LogWriter

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
    """Each line of each thread comes once, in the order of its thread, while the buffers change places."""
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

    class Line(bytes):
        def __len__(self) -> int:
            writer.info(b"inner")
            return super().__len__()

    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb") as target:
        writer = LogWriter(target, lost)
        adding = threading.Thread(target=writer.info, args=(Line(b"outer"),), daemon=True)
        adding.start()
        adding.join(PATIENCE_S)
        assert not adding.is_alive()
        writer.close(PATIENCE_S)
        target.close()
        assert reader.read() == b"inner\nouter\n"


def test_a_burst_does_not_keep_its_memory(tmp_path: Path) -> None:
    """A buffer that grew in a burst is given back."""
    line = b"x" * 1023
    with (tmp_path / "log").open("wb") as target:
        writer = LogWriter(target, lost)
        tracemalloc.start()
        for _ in range(3):  # the buffers take turns
            for _ in range(BUFFER_BYTES // (len(line) + 1)):
                writer.info(line)
            assert writer.flush(PATIENCE_S)
        held, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        writer.close(PATIENCE_S)

    assert writer.dropped == 0
    assert held < 3 * KEPT_BYTES
