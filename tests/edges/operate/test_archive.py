"""The archive of expired entries: a line is there whole, or not at all."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from consumer.edges.process.system import FileArchive, SystemClock


@contextmanager
def room(size_bytes: int) -> Iterator[None]:
    """Let no file grow over *size_bytes*: a write beyond it is cut short, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def only_file(folder: Path) -> Path:
    """Return the file of this month."""
    [path] = folder.iterdir()
    return path


def lines(folder: Path) -> list[object]:
    """Return the content of the only file of the archive."""
    return [orjson.loads(line) for line in only_file(folder).read_bytes().splitlines()]


async def test_a_line_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    """A disk that fills up within a line: an error, so no ack; the next line is sound (fault 68, S1-4)."""
    archive = FileArchive(tmp_path, SystemClock())
    await archive.append({"n": 1})
    path = only_file(tmp_path)

    with room(path.stat().st_size + 10), pytest.raises(OSError) as caught:  # noqa: PT011  the test checks errno
        await archive.append({"n": 2, "body_base64": "x" * 100})
    await archive.append({"n": 3})

    assert caught.value.errno == errno.ENOSPC
    assert lines(tmp_path) == [{"n": 1}, {"n": 3}]


async def test_workers_that_share_a_home_write_one_after_the_other(tmp_path: Path) -> None:
    """An undone short write never removes the line of another (fault 68)."""
    archive = FileArchive(tmp_path, SystemClock())
    await archive.append({"n": 1})
    path = only_file(tmp_path)
    other = os.open(path, os.O_WRONLY | os.O_APPEND)
    fcntl.flock(other, fcntl.LOCK_EX)
    before = os.fstat(other).st_size
    os.write(other, b'{"n": "cut sh')

    appending = asyncio.create_task(archive.append({"n": 2}))
    done, _ = await asyncio.wait({appending}, timeout=0.2)
    os.ftruncate(other, before)
    os.close(other)
    await appending

    assert not done
    assert lines(tmp_path) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("value", [10**30, "\ud800"])
async def test_any_value_of_a_foreign_entry_is_written(tmp_path: Path, value: object) -> None:
    """A record that the quick encoder refuses blocks nothing: it is one line of JSON too (fault 68)."""
    await FileArchive(tmp_path, SystemClock()).append({"n": value})

    path = only_file(tmp_path)
    assert len(path.read_bytes().splitlines()) == 1
    assert path.read_bytes().startswith(b'{"n": ')


async def test_the_archive_is_for_its_owner_alone(tmp_path: Path) -> None:
    """S1-4: it contains bodies, so the file is 0600, and its folder and a new state folder are 0700."""
    home = tmp_path / "home"

    await FileArchive(home / "archive", SystemClock()).append({"n": 1})

    made = (home, home / "archive", only_file(home / "archive"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700, 0o700, 0o600]
