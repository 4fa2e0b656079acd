"""Fault 68 with PostgreSQL: a write fails closed and names the reason; the store heals by itself."""

from __future__ import annotations

import secrets

import asyncpg
import pytest

from consumer.core.errors import StoreUnavailable
from consumer.edges.store import SqlStore, StoreOptions
from consumer.edges.store.keys import Keys
from consumer.edges.store.postgres import PostgresDatabase
from consumer.edges.store.rows.records import Records
from tests.support.processes.postgres import Postgres
from tests.support.stores import RULES, Place, apply, on, refused, shop, unreadable


async def test_a_server_that_stops_is_reported_and_comes_back(
    sql_place: Place, own_postgres: Postgres
) -> None:
    """Fault 68: stopped in the middle; started again, the same store goes on without help."""
    sql_place.url = await own_postgres.database()
    store = sql_place.open()
    await apply(store, shop())
    await store.load()

    await own_postgres.stop()
    await unreadable(store, r"^postgresql://127\.0\.0\.1:\d+/test_\w+: cannot be reached; start PostgreSQL")
    await own_postgres.start()

    assert not await store.changed()
    await apply(store, shop(timeout_s=9))
    assert await store.changed()
    assert len(await store.load()) == 1


async def test_a_server_that_is_silent_counts_as_away(sql_place: Place, own_postgres: Postgres) -> None:
    """Fault 68: no answer is an answer after a while; the connection that hung is not used again."""
    database = PostgresDatabase(await own_postgres.database(), busy_timeout_s=0.5, statement_s=0.5)
    store = SqlStore(
        database, Keys(sql_place.home, None, None), Records(database, 0), StoreOptions(RULES, 60.0)
    )
    sql_place.opened.append(store)
    await apply(store, shop())
    await store.load()

    own_postgres.suspend()
    for read in (store.changed(), store.load()):
        with pytest.raises(
            StoreUnavailable, match=r"did not answer within 0\.5 s; check PostgreSQL and the network"
        ):
            await read
    own_postgres.resume()

    assert len(await store.load()) == 1
    await apply(store, shop(timeout_s=9))


async def test_refusals_of_postgres_are_reported(sql_place: Place, postgres: Postgres) -> None:
    """Fault 68: user, password, database, rights: named, with the remedy, and never the password."""
    good = await postgres.database()
    sql_place.url = good
    await apply(sql_place.open(), shop())
    wrongs = {
        good.replace("only-on-loopback", "hush"): r"refuses the user or the password; correct LEVERET_",
        good + "x": r"the database does not exist; make it with createdb",
        "postgresql://u:hush@127.0.0.1:1/d": r"^postgresql://127\.0\.0\.1:1/d: cannot be reached; start",
        "postgresql://u:hush@nowhere.invalid/d": r"cannot be reached; start PostgreSQL",
    }
    for url, told in wrongs.items():
        sql_place.url = url
        with pytest.raises(StoreUnavailable, match=told) as error:
            await sql_place.open().load()
        assert "hush" not in str(error.value)
        assert "\n" not in str(error.value)


async def test_a_user_without_rights_is_reported(sql_place: Place, postgres: Postgres) -> None:
    """Fault 68: a user without the right to make tables gets an error that names it."""
    sql_place.url = await postgres.database()
    user = f"u{secrets.token_hex(4)}"
    await on(sql_place.url, f"CREATE USER {user} PASSWORD 'hush'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    sql_place.url = sql_place.url.replace("leveret:only-on-loopback", f"{user}:hush")

    with pytest.raises(StoreUnavailable, match=r"the user has too few rights; make it the owner: ALTER"):
        await sql_place.open().load()


async def test_a_standby_is_read_and_not_written(sql_place: Place, postgres: Postgres) -> None:
    """Fault 68: read-only, as a standby is."""
    sql_place.url = await postgres.database()
    await apply(sql_place.open(), shop())
    await on(
        sql_place.url,
        f"ALTER DATABASE {sql_place.url.rpartition('/')[2]} SET default_transaction_read_only = on",
    )
    store = sql_place.open()

    assert len(await store.load()) == 1
    await refused(store, r"is a standby or read-only; name the primary")


async def test_a_held_row_is_waited_for_and_then_reported(sql_place: Place, postgres: Postgres) -> None:
    """Fault 68: locked: another session holds the writers' row for too long; reading goes on."""
    sql_place.url = await postgres.database()
    store = sql_place.open(STORE__BUSY_TIMEOUT_S="0.3")
    await apply(store, shop())
    other = await asyncpg.connect(sql_place.url)
    async with other.transaction():
        await other.execute("SELECT * FROM leveret_revision FOR UPDATE")

        await refused(store, r"another writer holds the store for too long; look at pg_stat_activity")
        assert len(await store.load()) == 1
    await other.close()

    await apply(store, shop(timeout_s=9))


async def test_missing_tables_are_not_made_anew_by_an_open_store(
    sql_place: Place, postgres: Postgres
) -> None:
    """Fault 68: a running daemon never takes an emptied database for an empty store."""
    sql_place.url = await postgres.database()
    store = sql_place.open()
    await apply(store, shop())
    await store.load()
    await on(sql_place.url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    await unreadable(store, r"holds no store; restore it from a backup$")
    connection = await asyncpg.connect(sql_place.url)
    made = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    assert made == []
