"""The file of the books: it outlives a kill -9, belongs to one worker, and a bad one is put aside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from consumer.core.books import Origin, Step
from consumer.edges.process.books_file import HEAD, SIZE_BYTES, BooksFolder
from tests.support.data import ROOT
from tests.support.flow.books import rest

KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from consumer.core.books import Origin, Step
from consumer.edges.process.books_file import BooksFolder
reports = SimpleNamespace(opened=lambda path, interrupted: None)
books = BooksFolder(Path(sys.argv[1]), reports).open()
for _ in range(1000):
    books.add(Origin.OWED, Step.OPENED, 1)
    books.add(Origin.OWED, Step.DELIVERED, 1)
books.add(Origin.OWED, Step.OPENED, 3)
books.add(Origin.WAITING, Step.OPENED, 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass
class Reports:
    """Remembers every report."""

    openings: list[tuple[str, tuple[int, int]]] = field(default_factory=list)
    aside: list[tuple[str, str]] = field(default_factory=list)
    faults: list[OSError] = field(default_factory=list)

    def opened(self, path: str, interrupted: tuple[int, int]) -> None:
        """Remember the name of the file."""
        self.openings.append((Path(path).name, interrupted))

    def put_aside(self, path: str, detail: str) -> None:
        """Remember the new name of the file."""
        self.aside.append((Path(path).name, detail))

    def unkept(self, folder: str, error: OSError) -> None:
        """Remember the error."""
        self.faults.append(error)


@pytest.fixture
def reports() -> Reports:
    """No reports so far."""
    return Reports()


def end(*folders: BooksFolder) -> None:
    """Give the locks up, as the end of a process does; the books must be gone."""
    for locked in [locked for folder in folders for locked in folder._kept]:
        os.close(locked.handle)


def test_the_books_outlive_a_kill(tmp_path: Path, reports: Reports) -> None:
    """The next process goes on; the targets in flight are interrupted."""
    argv = [sys.executable, "-c", KILLED, str(tmp_path / "books")]
    assert subprocess.run(argv, cwd=ROOT, check=False).returncode == -signal.SIGKILL

    balance = BooksFolder(tmp_path / "books", reports).open().balance()

    assert (balance.owed, balance.delivered, balance.in_flight, rest(balance)) == (1003, 1000, 0, 0)
    assert reports.openings == [("worker-0.books", (3, 2))]


def test_each_worker_has_a_file_of_its_own(tmp_path: Path, reports: Reports) -> None:
    """Two workers share a folder; the file of one that ended goes to the next one."""
    first, second = BooksFolder(tmp_path, reports), BooksFolder(tmp_path, reports)
    first.open().add(Origin.OWED, Step.OPENED, 7)

    assert second.open().balance().owed == 0
    assert [name for name, _ in reports.openings] == ["worker-0.books", "worker-1.books"]


def test_a_worker_goes_on_with_the_file_of_its_port(tmp_path: Path, reports: Reports) -> None:
    """Two workers that start in another order have their numbers again; a second one of a port does not."""
    for port in (8081, 8082):
        folder = BooksFolder(tmp_path, reports, port)
        folder.open().add(Origin.OWED, Step.OPENED, port)
        end(folder)

    folders = [BooksFolder(tmp_path, reports, port) for port in (8082, 8081, 8081)]
    assert [folder.open().balance().owed for folder in folders] == [8082, 8081, 0]
    assert reports.openings[-1] == ("worker-0.books", (0, 0))


def test_a_worker_takes_over_a_file_without_a_port(tmp_path: Path, reports: Reports) -> None:
    """Once: it has the name of the port from then on, and the next worker takes the next file."""
    first, second = BooksFolder(tmp_path, reports), BooksFolder(tmp_path, reports)
    first.open().add(Origin.OWED, Step.OPENED, 1)
    second.open().add(Origin.OWED, Step.OPENED, 2)
    end(first, second)

    folders = [BooksFolder(tmp_path, reports, port) for port in (8082, 8081)]

    assert [folder.open().balance().owed for folder in folders] == [1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-8081.books", "worker-8082.books"]


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"#!/bin/sh\n" * 100,
        HEAD,
        bytes(SIZE_BYTES),
        HEAD + b"\xff" * (SIZE_BYTES - len(HEAD)),
        HEAD + b"\1" * (SIZE_BYTES - len(HEAD)),
    ],
    ids=["short", "foreign", "torn", "zeros", "negative", "more ends than targets"],
)
def test_a_bad_file_is_put_aside(tmp_path: Path, reports: Reports, content: bytes) -> None:
    """It is kept whole under another name, and the books begin at zero."""
    (tmp_path / "worker-0.books").write_bytes(content)

    books = BooksFolder(tmp_path, reports).open()

    assert books.balance() == type(books)().balance()
    assert [name for name, _ in reports.aside] == ["worker-0.unreadable"]
    assert (tmp_path / "worker-0.unreadable").read_bytes() == content
    assert reports.openings == [("worker-0.books", (0, 0))]


def test_an_empty_file_is_a_new_one(tmp_path: Path, reports: Reports) -> None:
    """A process was killed between the creation and the first write."""
    (tmp_path / "worker-0.books").touch()

    BooksFolder(tmp_path, reports).open()

    assert (reports.aside, len(reports.openings)) == ([], 1)


def test_without_a_place_the_books_begin_at_zero(tmp_path: Path, reports: Reports) -> None:
    """A file is where the folder should be: the worker works on, and says so."""
    (tmp_path / "books").touch()

    books = BooksFolder(tmp_path / "books", reports).open()
    books.add(Origin.OWED, Step.OPENED, 1)

    assert books.balance().owed == 1
    assert len(reports.faults) == 1
