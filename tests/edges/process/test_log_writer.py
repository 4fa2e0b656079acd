"""The log has its own thread: an unread log stops no delivery (fault 93)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from consumer.edges.process.log_writer import BUFFER_BYTES, LogWriter

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
