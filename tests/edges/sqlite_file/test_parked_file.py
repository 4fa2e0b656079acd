"""The index of parked entries is the same whether it is read with SQLAlchemy or without it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from consumer.core.errors import StoreGone, StoreUnavailable
from consumer.core.message.records import ParkedRow
from consumer.edges.sqlite_file.file import SqliteFile
from consumer.edges.sqlite_file.parked import read_parked
from tests.support.builders.index_rows import batch, row
from tests.support.processes.rights import without_rights
from tests.support.stores import Place


def read(place: Place) -> Sequence[ParkedRow]:
    """Read the index without SQLAlchemy."""
    return read_parked(SqliteFile(place.home), 0.0, time.time())


def execute(place: Place, statement: str) -> None:
    """Change the file beside the store."""
    with closing(sqlite3.connect(place.file)) as file:
        file.execute(statement)
        file.commit()


async def test_both_readers_return_the_same_rows(sql_place: Place) -> None:
    """Every field, in the same order; expired rows are left out."""
    store = sql_place.open()
    sparse = row(2, tenant=None, event_id=None, type=None, subscription_ids=(), code=None, arrived_at=None)
    full = row(3, subscription_ids=("sub_1", "sub_2"), replays=2, messages=3, shown='{"id":"\u20ac"}')
    tied = row(4, parked_at=full.parked_at)
    await store.records.write(batch(row(1), sparse, full, tied, row(5, expires_at=1.0)))

    found = read(sql_place)

    assert found == await store.parked_index()
    assert found == (tied, full, sparse, row(1, expires_at=found[-1].expires_at))


async def test_an_index_of_an_earlier_release_has_fewer_columns(sql_place: Place) -> None:
    """A missing column has its default."""
    store = sql_place.open()
    await store.records.write(batch(row(1, messages=2, shown="{}")))
    execute(sql_place, "ALTER TABLE leveret_parked_index DROP COLUMN shown")
    execute(sql_place, "ALTER TABLE leveret_parked_index DROP COLUMN messages")

    [found] = read(sql_place)

    assert (found.messages, found.shown) == (1, "")
    assert [found] == list(await sql_place.open().parked_index())


async def test_before_a_store_exists_there_are_no_rows(sql_place: Place) -> None:
    """Reading makes nothing."""
    assert read(sql_place) == ()
    assert not sql_place.home.exists()


async def test_faults_have_the_words_of_the_store(sql_place: Place) -> None:
    """A file that has gone, lost its table, is locked or damaged: one line with place, fault and remedy."""
    await sql_place.open().records.write(batch(row(1)))

    with closing(sqlite3.connect(sql_place.file)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match=r"leveret\.db: is locked by another process"):
            read(sql_place)
    execute(sql_place, "ALTER TABLE leveret_parked_index RENAME TO leveret_other")
    with pytest.raises(StoreGone, match="holds no store; restore it from a backup"):
        read(sql_place)
    sql_place.file.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreUnavailable, match="is not a valid SQLite file"):
        read(sql_place)
    sql_place.file.unlink()
    with pytest.raises(
        StoreGone, match=r"has gone or is empty; restore it from a backup, or remove .*store\.made"
    ):
        read(sql_place)


async def test_a_read_only_folder_is_read() -> None:
    """SQLite needs a log file beside the file, unless nobody writes."""
    with TemporaryDirectory() as folder:  # not inside pytest's folder, which only its user may enter
        place = Place(Path(folder) / "home")
        await place.open().records.write(batch(row(1)))
        await place.close()
        place.file.chmod(0o444)
        for each in (place.home, place.home.parent):
            each.chmod(0o555)

        with without_rights():
            found = read(place)

        assert [each.id for each in found] == [row(1).id]
        for each in (place.home, place.home.parent):
            each.chmod(0o700)
