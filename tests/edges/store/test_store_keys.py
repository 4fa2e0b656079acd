"""Secrets at rest: sealed, bound to their subscription, and never a reason to send anything unsigned."""

from __future__ import annotations

import base64
import os
import stat
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.store.sealing import KeyRing, Locked, Owner, parse_keys
from consumer.core.subscription.subscription import subscription_id
from tests.support.stores import SHOP, Place, apply, by_id, shop

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = shop(name="other", url="https://other.example/", secrets=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])


def new_key() -> str:
    """Return a key as ``openssl rand -base64 32`` makes it."""
    return base64.b64encode(os.urandom(32)).decode()


async def execute(place: Place, statement: str, **values: object) -> list[tuple[Any, ...]]:
    """Run a statement on the database itself, as an operator would."""
    url = place.url.replace("postgresql:", "postgresql+asyncpg:") or f"sqlite+aiosqlite:///{place.file}"
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        result = await connection.execute(text(statement), values)
        rows = [tuple(row) for row in result] if result.returns_rows else []
    await engine.dispose()
    return rows


async def test_nothing_of_a_secret_is_in_the_database(place: Place) -> None:
    """Encrypted at rest, each time anew."""
    store = place.open()
    await apply(store, shop(secrets=[SECRET]), OTHER)
    first = await execute(place, "SELECT * FROM leveret_subscriptions ORDER BY id")
    await apply(store, shop(secrets=[SECRET], timeout_s=3))
    second = await execute(place, "SELECT * FROM leveret_subscriptions ORDER BY id")

    raw = base64.b64decode(SECRET.removeprefix("whsec_"))
    for row in (*first, *second):
        for value in row:
            held = value if isinstance(value, bytes) else str(value).encode()
            assert SECRET.encode() not in held
            assert raw not in held
    sealed = {row[9] for row in (*first, *second)}
    assert len(sealed) == 3  # a fresh nonce: the same secret never looks the same


async def test_the_key_file_is_for_its_owner_alone(place: Place) -> None:
    """Made once, at the first write, 0600 in a folder 0700."""
    store = place.open()
    await store.load()
    key = place.home / "store.key"
    assert not key.exists()

    await apply(store, shop())
    first = key.read_text()
    await apply(place.open(), OTHER)

    assert key.read_text() == first
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.home.stat().st_mode) == 0o700
    assert {path.name for path in place.home.iterdir()} <= {
        *("store.key", "leveret.db", "leveret.db-wal", "leveret.db-shm", "store.made")
    }


@pytest.mark.parametrize("damage", ["missing", "another", "garbage", "not text", "unreadable"])
async def test_a_wrong_key_locks_and_is_put_back(place: Place, damage: str) -> None:
    """Fault 69: a subscription that cannot be decrypted has no key and a reason; it heals by itself."""
    await apply(place.open(), shop(), OTHER)
    key = place.home / "store.key"
    good = key.read_bytes()
    key.unlink()
    match damage:
        case "another":
            key.write_text(new_key())
        case "garbage":
            key.write_text("no key at all")
        case "not text":
            key.write_bytes(b"\xff\x00")
        case "unreadable":
            key.mkdir()
    store = place.open()

    loaded = by_id(await store.load())

    assert [(s.keys, s.locked is None) for s in loaded.values()] == [((), False)] * 2
    reason = loaded[SHOP].locked or ""
    assert str(key) in reason or "store key" in reason
    assert [e.locked for e in await store.entries()] == [s.locked for s in loaded.values()]
    assert not await store.changed()

    if key.is_dir():
        key.rmdir()
    key.write_bytes(good)
    assert await store.changed()
    assert [(len(s.keys), s.locked) for s in await store.load()] == [(1, None)] * 2


async def test_a_key_that_goes_takes_nothing_from_memory(place: Place) -> None:
    """Fault 69: a running daemon signs on with its decrypted secrets; only new subscriptions are locked."""
    store = place.open()
    await apply(store, shop())
    before = by_id(await store.load())[SHOP]
    key = place.home / "store.key"
    good = key.read_bytes()

    await apply(place.open(), OTHER)
    key.unlink()
    loaded = by_id(await store.load())

    assert loaded[SHOP] is before
    assert loaded[subscription_id("acme", "other")].locked is not None
    key.write_bytes(good)
    assert all(s.locked is None for s in await store.load())


async def test_no_new_key_is_made_over_sealed_secrets(place: Place) -> None:
    """Fault 69: a lost key is reported, not replaced by one that opens nothing; nothing is written."""
    await apply(place.open(), shop())
    (place.home / "store.key").unlink()
    store = place.open()

    with pytest.raises(ConfigError, match=r"store\.key: the store's key is missing; restore it, or create"):
        await apply(store, OTHER)

    assert not (place.home / "store.key").exists()
    assert [entry.label for entry in await store.entries()] == ["shop"]


async def test_locked_entries_can_be_changed_removed_and_repaired(place: Place) -> None:
    """Fault 69: an operator who lost the key gives new secrets; nothing is rotated without a command."""
    await apply(place.open(), shop(), OTHER)
    kept = await execute(place, "SELECT secrets FROM leveret_subscriptions WHERE name = 'shop'")
    (place.home / "store.key").write_text(new_key())
    store = place.open()

    same = await apply(store, shop())
    changed = await apply(store, shop(timeout_s=3))
    await store.disable(SHOP, "HTTP 410")
    assert (len(same.unchanged), len(changed.changed), len(changed.generated)) == (1, 1, 0)
    assert await execute(place, "SELECT secrets FROM leveret_subscriptions WHERE name = 'shop'") == kept

    repaired = await apply(store, shop(secrets=[SECRET]), enable=True, prune=True)
    assert [entry.label for entry in repaired.removed] == ["other"]
    [only] = await store.load()
    assert (only.locked, only.enabled, len(only.keys)) == (None, True, 1)


async def test_a_sealed_secret_opens_for_its_own_subscription_only(place: Place) -> None:
    """Associated data is tenant and subscription; a swapped or damaged one is locked."""
    await apply(place.open(), shop(), OTHER, shop(name="third", url="https://third.example/"))
    swap = "UPDATE leveret_subscriptions SET secrets = :sealed WHERE name = :name"
    rows: dict[str, bytes] = dict(await execute(place, "SELECT name, secrets FROM leveret_subscriptions"))
    await execute(place, swap, name="shop", sealed=rows["other"])
    damaged = bytes(rows["third"])
    await execute(place, swap, name="third", sealed=damaged[:-1] + bytes([damaged[-1] ^ 1]))

    loaded = {s.name: s.locked for s in await place.open().load()}

    assert loaded["other"] is None
    assert loaded["shop"] == loaded["third"]
    assert loaded["shop"] == "its sealed secrets are damaged, or were sealed for another subscription"


async def test_keys_are_rotated(place: Place) -> None:
    """The first key seals, the others still open; after a rekey they may go."""
    old, new = new_key(), new_key()
    await apply(place.open(STORE__KEY=old), shop(), OTHER)
    rotating = place.open(STORE__KEY=f"{new} {old}")
    assert all(s.locked is None for s in await rotating.load())

    await apply(rotating, shop(timeout_s=3))
    ids: dict[str, str] = dict(await execute(place, "SELECT name, key_id FROM leveret_subscriptions"))
    assert ids == {"shop": parse_keys(new)[0].id, "other": parse_keys(old)[0].id}

    done = await rotating.rekey()
    again = await rotating.rekey()
    assert (done.current, done.rekeyed, done.locked) == (1, 1, 0)
    assert (again.current, again.rekeyed, again.locked) == (2, 0, 0)
    assert await rotating.changed()
    after = await place.open(STORE__KEY=new).load()
    assert [s.locked for s in after] == [None, None]
    assert after == await rotating.load()


async def test_a_rekey_without_the_old_key_leaves_unreadable_secrets(place: Place) -> None:
    """Fault 69: nothing is lost by a rekey with the wrong keys."""
    old, new = new_key(), new_key()
    await apply(place.open(STORE__KEY=old), shop())

    done = await place.open(STORE__KEY=new).rekey()

    assert (done.rekeyed, done.locked) == (0, 1)
    assert [s.locked for s in await place.open(STORE__KEY=old).load()] == [None]


async def test_a_key_file_may_hold_notes_and_several_keys(place: Place) -> None:
    """As a mounted secret; read anew at each use, so a rotation needs no restart."""
    old, new = new_key(), new_key()
    file = place.home.parent / "keys"
    file.write_text(f"# of 2026\n{old}\n")
    store = place.open(STORE__KEY_FILE=str(file))
    await apply(store, shop())

    file.write_text(f"# of 2027\n{new}\n# of 2026\n{old}\n")
    assert (await store.rekey()).rekeyed == 1
    file.write_text(new)
    assert [s.locked for s in await place.open().load()] == [None]
    assert not (place.home / "store.key").exists()


async def test_a_key_that_cannot_be_written_is_one_line(sql_place: Place) -> None:
    """Fault 68: fail closed: without a key nothing is stored, and the error names file and remedy."""
    (sql_place.home / "store.key.part").mkdir(parents=True)
    (sql_place.home / f"store.key.{os.getpid()}.new").mkdir()
    store = sql_place.open()

    with pytest.raises(
        StoreUnavailable, match=r"store\.key: the store's key cannot be written: .*; make the"
    ):
        await apply(store, shop())

    assert list(await store.entries()) == []


def test_a_sealed_text_of_a_newer_format_is_locked() -> None:
    """Fault 69: nothing is guessed."""
    ring = KeyRing(parse_keys(new_key()))
    owner = Owner("acme", SHOP)
    sealed = ring.seal([SECRET], owner, os.urandom(12))

    assert ring.open(sealed, owner) == (SECRET,)
    for text_ in (b"\x02" + sealed.text[1:], b"", sealed.text[:5]):
        with pytest.raises(Locked):
            ring.open(type(sealed)(sealed.key_id, text_), owner)


@pytest.mark.parametrize("wrong", ["", "# only a note\n", "short", "A" * 43 + "=x", "A" * 44])
def test_an_invalid_key_is_reported_without_repeating_it(wrong: str) -> None:
    """Names the remedy, never the text."""
    with pytest.raises(ConfigError, match="openssl rand -base64 32") as told:
        parse_keys(wrong)

    assert not wrong.strip() or wrong not in str(told.value)
