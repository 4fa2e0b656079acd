"""The tables are made once, by any process, and a release that does not know them leaves them alone."""

from __future__ import annotations

import asyncio
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.schema import SchemaItem

from consumer.core.errors import StoreUnavailable
from consumer.edges.store import migrate
from consumer.edges.store.rows.publish_keys import PublishKey
from consumer.edges.store.tables import METADATA, SCHEMA, VERSION_TABLE
from tests.support.data import ROOT
from tests.support.stores import Place, apply, engine_of, execute, shop, take_back

NEWER = "UPDATE leveret_schema SET version_num = '0999'"

STARTER = """
import asyncio, json, os, sys
from consumer.edges.store import open_store
from consumer.settings import load_settings

async def start():
    store = open_store(load_settings())
    print("ready", flush=True)
    sys.stdin.readline()
    await store.load()
    await store.close()

asyncio.run(start())
"""


async def read_one(place: Place, query: str) -> object:
    """Return the only value of a query on the database itself."""
    engine = engine_of(place)
    async with engine.connect() as connection:
        found = (await connection.execute(text(query))).scalar_one()
    await engine.dispose()
    return found


async def tables(place: Place) -> list[str]:
    """Return the names of the tables that there are."""
    engine = engine_of(place)
    async with engine.connect() as connection:
        found = await connection.run_sync(lambda c: inspect(c).get_table_names())
    await engine.dispose()
    return found


def _is_of(item: SchemaItem, dialect: str) -> bool:
    """Return whether a table of the code belongs to a dialect."""
    return bool(item.info.get("dialect", dialect) == dialect)


async def test_the_migrations_make_the_tables_that_the_code_uses(place: Place) -> None:
    """Nothing differs between the steps and the tables in the code."""

    def differences(connection: Connection) -> list[object]:
        dialect = connection.dialect.name
        opts = {"version_table": VERSION_TABLE, "include_object": lambda of, *_: _is_of(of, dialect)}
        context = MigrationContext.configure(connection, opts=opts)
        return list(compare_metadata(context, METADATA))

    await place.open().load()
    engine = engine_of(place)
    async with engine.connect() as connection:
        found = await connection.run_sync(differences)
    await engine.dispose()

    assert found == []


def test_the_code_names_the_newest_step() -> None:
    """Numbers of four digits, without gaps, and the code expects the last one."""
    steps = ScriptDirectory.from_config(migrate.config())

    numbers = [step.revision for step in steps.walk_revisions()]

    assert steps.get_heads() == [SCHEMA]
    assert numbers == sorted(numbers, reverse=True)
    assert all(len(number) == 4 and number.isdecimal() for number in numbers)


async def test_two_that_start_at_once_make_the_tables_once(place: Place) -> None:
    """Processes that find no tables wait for each other; all of them go on."""
    environ = {"LEVERET_HOME": str(place.home), "PYTHONPATH": str(ROOT)}
    environ |= {"LEVERET_DATABASE_URL": place.url} if place.url else {}
    pipe = asyncio.subprocess.PIPE
    starters = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", STARTER), env=environ, stdin=pipe, stdout=pipe, stderr=pipe
        )
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert await starter.stdout.readline() == b"ready\n"

    ended = await asyncio.gather(*(starter.communicate(b"\n") for starter in starters))

    assert [err for _, err in ended] == [b""] * 4
    assert [starter.returncode for starter in starters] == [0] * 4
    await apply(place.open(), shop())
    assert len(await place.open().load()) == 1


async def test_a_step_that_breaks_off_leaves_nothing(place: Place) -> None:
    """Faults 57, 68: a migration is whole or not at all; once the fault is gone the next start makes it."""
    place.home.mkdir()
    in_the_way = "leveret_parked_index"  # of the tables, the one that is made last
    await execute(place, f"CREATE TABLE {in_the_way} (id INTEGER)")

    with pytest.raises(StoreUnavailable, match=f"{in_the_way}.* already exists"):
        await place.open().load()
    assert await tables(place) == [in_the_way]

    await execute(place, f"DROP TABLE {in_the_way}")
    await apply(place.open(), shop())
    assert len(await place.open().load()) == 1


async def test_an_older_schema_is_read_as_it_is(place: Place) -> None:
    """Fault 68: a listing beside workers of the release before; the first one that writes brings it up."""
    await apply(place.open(), shop())
    await take_back(place, "0003")

    assert await place.open().records.holds() == {}
    assert list(await place.open().parked_index()) == []
    assert await place.open().records.count_parked() == 0
    assert len(await place.open().entries()) == 1

    await apply(place.open(), shop(timeout_s=3))
    assert "leveret_holds" in await tables(place)


ROWS = (
    "INSERT INTO leveret_jobs (id, state, spec, created, updated, holder, held_until, replayed, refused,"
    " detail) VALUES ('job_1', 'done', '{}', 1, 1, '', 0, 2, 0, '')",
    "INSERT INTO leveret_publish_keys (tenant, key, digest, event_id, at, confirmed)"
    " VALUES ('acme', 'k', 'd', 'e', 9e12, true), ('acme', 'other', 'd', 'e', 9e12, false)",
    "INSERT INTO leveret_tokens (id, name, hash, scope, created) VALUES ('t', 'shop', 'h', 'read', 1)",
)
"""Rows as releases with the schemas 0008 to 0010 wrote them."""


async def test_rows_of_before_stay_as_they_are(place: Place) -> None:
    """Jobs, keys and tokens of an earlier release; a key that nobody publishes now is free."""
    await apply(place.open(), shop())
    await take_back(place, "0010")
    for row in ROWS:
        await execute(place, row)
    before = place.open()
    assert [each.name for each in await before.records.tokens.all()] == ["shop"]
    await before.records.jobs.all()  # read as it is, before a process writes

    await apply(place.open(), shop(timeout_s=3))
    keys = place.open().records.publish_keys
    claims = [
        await keys.claim(PublishKey(tenant="acme", key=key, digest="d", event_id="e"))
        for key in ("k", "other")
    ]

    assert [(claim.use.confirmed, claim.is_ours) for claim in claims] == [(True, False), (False, True)]
    assert await read_one(place, "SELECT total FROM leveret_jobs") is None
    assert await read_one(place, "SELECT replayed FROM leveret_jobs") == 2


async def test_whoever_disabled_it_follows_from_the_reason_of_before(place: Place) -> None:
    """An earlier release kept only the text: it is judged once more by its form, and then kept as it is."""
    names = ("gone", "asked", "off", "on")
    entries = [shop(name=name, url=f"https://{name}.example/", enabled=name != "off") for name in names]
    await apply(place.open(), *entries)
    await take_back(place, "0013")
    for name, reason in (("gone", "HTTP 410; bye"), ("asked", "the customer asked")):
        await execute(
            place,
            f"UPDATE leveret_subscriptions SET enabled = false, disabled_reason = '{reason}' "  # noqa: S608 (ours)
            f"WHERE name = '{name}'",
        )

    async def found() -> dict[str, bool]:
        return {one.name: one.disabled_itself for one in await place.open().load()}

    expected = {"gone": True, "asked": False, "off": False, "on": False}
    assert await found() == expected
    await apply(place.open(), *entries, shop(name="new", url="https://new.example/"))
    assert await found() == {**expected, "new": False}
    await execute(place, "UPDATE leveret_subscriptions SET disabled_reason = 'HTTP 503; x'")
    assert await found() == {**expected, "new": False}


async def test_a_newer_schema_is_read_and_never_written(place: Place) -> None:
    """Of a newer release; delivery goes on with the readable content, writes are refused."""
    await apply(place.open(), shop())
    await execute(place, NEWER)
    await execute(place, "ALTER TABLE leveret_subscriptions ADD COLUMN of_tomorrow TEXT")
    store = place.open()

    assert len(await store.load()) == 1
    for write in (apply(store, shop(timeout_s=3)), store.disable("sub_1", "x"), store.rekey()):
        with pytest.raises(StoreUnavailable, match=r"is of a newer release \(schema 0999, this"):
            await write
    assert [entry.timeout_s for entry in await store.entries()] == [None]


async def test_a_newer_schema_that_cannot_be_read_is_reported(place: Place) -> None:
    """Fault 68: a table that this release misses is an error, not an empty store."""
    await apply(place.open(), shop())
    await execute(place, NEWER)
    await execute(place, "ALTER TABLE leveret_subscriptions RENAME TO leveret_endpoints")

    with pytest.raises(StoreUnavailable, match=r"holds no store; restore it from a backup$"):
        await place.open().load()


async def test_reading_makes_nothing(place: Place) -> None:
    """The tables come with the daemon's start or the first write, not with a listing."""
    store = place.open()

    assert list(await store.entries()) == []
    assert list(await store.endpoint_states()) == []
    assert list(await store.parked_index()) == []

    assert not place.home.exists()
    if place.url:
        assert await tables(place) == []
