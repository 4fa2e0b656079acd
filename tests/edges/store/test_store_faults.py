"""Fault 68 with SQLite: a write fails closed and names the reason; the store heals by itself."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.store.lineage import Doubt, judge
from tests.support.data import ROOT
from tests.support.processes.rights import without_rights
from tests.support.stores import SHOP, Place, apply, by_id, many, on, refused, shop, unreadable

# SQLite


async def test_a_file_that_has_gone_is_no_empty_store(sql_place: Place) -> None:
    """Fault 68: neither daemon nor command makes an empty one in its place; put back, it is used."""
    store = sql_place.open()
    await apply(store, shop())
    await store.load()
    aside = sql_place.home.parent / "aside.db"
    sql_place.file.rename(aside)

    await unreadable(store, r"leveret\.db: has gone.*; restore it from a backup, or remove .*store\.made to")
    await refused(sql_place.open(), r"leveret\.db: has gone or is empty; restore it from a backup")
    with pytest.raises(StoreUnavailable, match="has gone"):
        await sql_place.open().load()
    assert not sql_place.file.exists()

    aside.rename(sql_place.file)
    assert not await store.changed()
    assert len(await store.load()) == 1
    await apply(store, shop(timeout_s=9))


async def test_a_store_that_was_made_anew_is_known_by_its_identity(place: Place) -> None:
    """Faults 68, 81: it is read as another one; the daemon then keeps its state (tests/flow/store)."""
    running = place.open()
    await apply(running, shop())
    await running.load()
    former = running.lineage
    if place.url:
        await on(place.url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    else:
        place.file.unlink()
        (place.home / "store.made").unlink()
        await unreadable(running, r"has gone or is empty; restore it")

    await apply(place.open(), shop(name="new"))

    assert await running.changed()
    assert [s.name for s in await running.load()] == ["new"]
    assert judge(running.lineage, former.generation) is Doubt.FOREIGN


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda good: b"", r"holds no store; restore it from a backup"),
        (lambda good: b"no database", r"is not a valid SQLite file; restore it from a backup"),
        (lambda good: good[:100] + b"\xff" * (len(good) - 100), r"is damaged; restore it from a backup"),
        (lambda good: good[:8192], r"is damaged; restore it from a backup"),
    ],
    ids=["empty", "another", "overwritten", "cut"],
)
async def test_a_damaged_file_is_reported_and_left_alone(sql_place: Place, damage: object, told: str) -> None:
    """Fault 68: nothing is overwritten; an open daemon and a new command report the same."""
    assert callable(damage)
    store = sql_place.open()
    await apply(store, *many(20))
    await store.load()
    good = sql_place.file.read_bytes()
    damaged: bytes = damage(good)
    sql_place.file.write_bytes(damaged)

    for opened, words in ((store, told), (sql_place.open(), f"{told}|has gone or is empty")):
        with pytest.raises(StoreUnavailable, match=words):
            await opened.load()
        with pytest.raises(StoreUnavailable, match=words):
            await apply(opened, shop())
    assert sql_place.file.read_bytes() == damaged

    sql_place.file.write_bytes(good)
    assert len(await store.load()) == 20


async def test_a_locked_file_is_read_and_not_written(sql_place: Place) -> None:
    """Fault 68: another process holds the write lock: wait for it a little, then report it."""
    store = sql_place.open(STORE__BUSY_TIMEOUT_S="0.2")
    await apply(store, shop())
    with closing(sqlite3.connect(sql_place.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        await refused(store, r"leveret\.db: is locked by another process; find it with")
        assert len(await store.load()) == 1
        assert not await store.changed()

    await apply(store, shop(timeout_s=9))


async def test_a_file_that_is_held_for_itself_cannot_even_be_read(sql_place: Place) -> None:
    """Fault 68: exclusive locking, as some backup tools do it."""
    store = sql_place.open(STORE__BUSY_TIMEOUT_S="0.2")
    await apply(store, shop())
    with closing(sqlite3.connect(sql_place.file, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")

        await unreadable(store, r"is locked by another process")

    assert len(await store.load()) == 1


async def test_a_waiting_writer_gets_its_turn(sql_place: Place) -> None:
    """Faults 33, 68: a lock that is given up in time delays nothing for longer, and no change is lost."""
    store = sql_place.open(STORE__BUSY_TIMEOUT_S="20")
    await apply(store, shop())
    with closing(sqlite3.connect(sql_place.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(apply(store, shop(name="second", url="https://second.example/")))
        await asyncio.wait({writing}, timeout=0.2)
        assert not writing.done()
        other.execute("UPDATE leveret_subscriptions SET disabled_reason = 'by hand', enabled = 0")
        other.execute("COMMIT")

    await writing
    assert {e.label: e.disabled_reason for e in await store.entries()} == {"shop": "by hand", "second": None}


async def test_a_folder_without_rights_is_reported(sql_place: Place) -> None:
    """Fault 68: read-only: nothing is written, nothing half; the rights come back, and so does the store."""
    store = sql_place.open()
    await apply(store, shop())
    await store.load()
    for folder in (sql_place.home.parent, *sql_place.home.parents[1:4]):
        folder.chmod(folder.stat().st_mode | 0o055)  # everybody may read, and only the owner may write
    sql_place.home.chmod(0o555)
    sql_place.file.chmod(0o444)
    (sql_place.home / "store.key").chmod(0o444)

    with without_rights():
        await refused(store, r"leveret\.db: (cannot be (written|opened); check the rights|.*rights)")
    assert [entry.timeout_s for entry in await store.entries()] == [None]

    sql_place.home.chmod(0o700)
    sql_place.file.chmod(0o600)
    await apply(store, shop(timeout_s=9))
    assert [entry.timeout_s for entry in await store.entries()] == [9]


async def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    """Fault 68: characters with a meaning in SQLite's URLs, and bytes that are not text."""
    place = Place(tmp_path / os.fsdecode(b"a%20b?mode=ro#\xff"))

    await apply(place.open(), shop())
    entries = await place.open().entries()
    await place.close()

    assert [entry.label for entry in entries] == ["shop"]
    assert place.file.exists()


async def test_a_home_that_cannot_be_made_is_reported(sql_place: Place) -> None:
    """Fault 68: the first write names the folder."""
    sql_place.home.write_text("a file")

    with pytest.raises(
        StoreUnavailable, match=r"leveret\.db: Not a directory; check that the file exists and"
    ):
        await apply(sql_place.open(), shop())


async def test_a_full_disk_leaves_the_store_as_it_was(sql_place: Place) -> None:
    """Fault 68: a write that breaks off is an error and is taken back; with room again it goes on."""
    store = sql_place.open()
    await apply(store, shop())
    before = await store.load()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sql_place.file.stat().st_size, hard))  # EFBIG from here on
    try:
        with pytest.raises(StoreUnavailable, match=r"the disk (is full|fails to read or write).*free"):
            await apply(store, *many(2_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert await store.load() == before
    await apply(store, *many(2_000))
    assert len(await store.load()) == 2_001


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.xfail("no right to mount; the limit on a file's size is tested instead")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_disk_without_room_takes_nothing_and_loses_nothing(small_disk: Path) -> None:
    """Fault 68: ENOSPC: the error names it; the old content is still there, and removing makes room."""
    place = Place(small_disk / "home")
    store = place.open()
    await apply(store, *many(20))
    before = await store.load()
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill(filler)

    with pytest.raises(StoreUnavailable, match=r"the disk is full; free some space|fails to read or write"):
        await apply(store, *many(1_000))
    assert await store.load() == before
    assert len(await place.open().load()) == 20  # a daemon that starts now delivers
    assert not await store.changed()

    filler.unlink()
    await apply(store, *many(200))
    assert len(await store.load()) == 200
    await place.close()


def fill(path: Path) -> None:
    """Write into *path* until the disk is full."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(handle, b"x" * 4096)
    finally:
        os.close(handle)


WRITER = """
import asyncio, json, sys
from consumer.core.changes.merge import merge
from consumer.edges.store import open_store
from consumer.settings import load_settings
from tests.support.stores import apply, shop

async def write(tenant):
    store = open_store(load_settings())
    for n in range(10):
        await apply(store, shop(tenant=tenant, name=f"n{n}", url=f"https://n{n}.example/"))
    await store.close()

asyncio.run(write(sys.argv[1]))
"""


async def test_processes_stand_in_line(place: Place) -> None:
    """Faults 33, 75: writers of several processes lose nothing, and a reader never sees half a change."""
    environ = {"LEVERET_HOME": str(place.home), "PYTHONPATH": str(ROOT)}
    environ |= {"LEVERET_DATABASE_URL": place.url} if place.url else {}
    store = place.open()
    await store.load()
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, tenant, env=environ, stderr=asyncio.subprocess.PIPE
        )
        for tenant in ("a", "b", "c")
    ]
    waiting = asyncio.gather(*(writer.communicate() for writer in writers))
    seen = [0]
    while not waiting.done():
        if await store.changed():
            seen.append(len(await store.load()))
        await asyncio.sleep(0)

    ended = await waiting

    assert [err for _, err in ended] == [b""] * 3
    assert len(await store.load()) == 30
    assert seen == sorted(seen)


# the stored entries


async def test_a_policy_that_is_gone_locks_its_subscriptions(place: Place) -> None:
    """The others go on, and it heals once the settings have the policy again."""
    with_night = place.open(RETRY__POLICIES='{"night": {"policy": "linear"}}')
    await apply(with_night, shop(retry={"max_attempts": 2}))
    await edit(place, """{"events": ["#"], "retry": {"policy": "night"}}""")
    assert by_id(await with_night.load())[SHOP].retry.name == "night"
    del place.environ["LEVERET_RETRY__POLICIES"]
    store = place.open()
    await apply(store, shop(name="till", url="https://till.example/"))

    found = by_id(await store.load())

    assert "retry.policy: 'night' is not one of adr, " in str(found[SHOP].locked)
    assert [one.locked for one in found.values() if one.id != SHOP] == [None]
    assert found[SHOP].keys
    assert by_id(await with_night.load())[SHOP].locked is None
    assert [entry.label for entry in await store.entries()] == ["shop", "till"]


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("{", r"acme/shop: is damaged; restore the store from a backup, or remove it and apply"),
        ("[]", r"acme/shop: is damaged"),
        ("{}", r"acme/shop: events: is missing; add it"),
        ('{"events": ["#"], "timeout_s": 99}', r"acme/shop: timeout_s: must be a number from 1 to 30"),
        ('{"events": ["#"], "colour": 1}', r"acme/shop: colour: no such key"),
    ],
)
async def test_an_entry_that_is_wrong_is_named(place: Place, stored: str, told: str) -> None:
    """Fault 68: which subscription and which field; nothing is written over it."""
    store = place.open()
    await apply(store, shop())
    await edit(place, stored)

    for use in (store.load(), store.entries(), apply(store, shop(timeout_s=9))):
        with pytest.raises(ConfigError, match=told):
            await use


async def edit(place: Place, entry: str) -> None:
    """Write *entry* over the stored subscription."""
    if place.url:
        connection = await asyncpg.connect(place.url)
        await connection.execute("UPDATE leveret_subscriptions SET entry = $1", entry)
        await connection.close()
        return
    with closing(sqlite3.connect(place.file, isolation_level=None)) as connection:
        connection.execute("UPDATE leveret_subscriptions SET entry = ?", (entry,))
