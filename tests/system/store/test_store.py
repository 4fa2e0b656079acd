"""The store fails while the daemon runs: delivery goes on, it is reported, and it heals by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes.postgres import Postgres
from tests.support.servers.receiver import Receiver
from tests.support.stores import copied, put_back
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

NOTE = "the store cannot be"  #: the beginning of its note on ``/readyz``, which still answers 200


@pytest.fixture
def healed(shared: Daemon) -> Iterator[Daemon]:
    """The shared daemon, whose store is put back after the test."""
    yield shared
    copy = shared.store_path.with_name("backup.db")
    if copy.exists():
        put_back(shared.store_path, copy)


@pytest.mark.parametrize("damage", ["overwritten", "empty", "missing", "folder", "held"])
async def test_a_damaged_store_stops_nothing(
    healed: Daemon, publisher: EventPublisher, receiver: Receiver, damage: str
) -> None:
    """Faults 68, 81: delivery goes on from memory, and health reports it; put back, it is in use.

    A store that has gone is red: it may come back as another one.
    """
    target, tenant = f"/ok/{damage}", f"damage-{damage}"
    await healed.apply(to(receiver, target, tenant))
    await until(lambda: healed.metric("leveret_store_up") == 1, "the store is well")
    path, copy = healed.store_path, copied(healed.store_path)
    failures = healed.count("store.failed")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        match damage:
            case "held":  # as a backup tool may hold it
                other.execute("PRAGMA locking_mode = EXCLUSIVE")
                other.execute("BEGIN EXCLUSIVE")
                other.execute("UPDATE leveret_revision SET mark = 'held'")
            case "missing":
                path.unlink()
            case "folder":
                path.unlink()
                path.mkdir()
            case "empty":
                path.write_bytes(b"")
            case _:
                path.write_bytes(b"\xff\xfe" * 4_096)

        await until(lambda: healed.metric("leveret_store_up") == 0, "the gauge says it")
        await healed.logged("store.failed", times=failures + 1)
        loads = healed.count("subscriptions.loaded")
        if damage in ("empty", "missing"):
            await until(lambda: "nothing is cancelled" in healed.unready(), "/readyz is red")
        else:
            assert NOTE in healed.health()
            await until(lambda: healed.unready() == "", "/readyz is green")
        event_id = await publisher.publish(tenant)
        await all_delivered(receiver, target, [event_id])
        assert healed.count("subscriptions.loaded") == loads

    put_back(path, copy)
    await until(lambda: healed.metric("leveret_store_up") == 1, "the gauge says that it is well")
    await healed.logged("store.recovered", step="read")
    await healed.apply(to(receiver, f"{target}/later", tenant))
    second = await publisher.publish(tenant)
    await all_delivered(receiver, f"{target}/later", [second])
    assert NOTE not in healed.health()
    assert healed.unready() == ""


async def test_the_same_fault_is_not_logged_for_ever(healed: Daemon, receiver: Receiver) -> None:
    """Fault 68: a store that stays damaged is one log line a fault, not two a second for months."""
    await healed.apply(to(receiver, "/ok/once", "once"))
    copied(healed.store_path)
    failures = healed.count("store.failed")

    healed.store_path.write_bytes(b"no database")
    await until(lambda: healed.count("store.failed") > failures, "the fault is logged")
    looks = healed.metric("leveret_reloads_total", result="failed")
    healed.reload()
    healed.reload()
    await until(lambda: healed.metric("leveret_reloads_total", result="failed") > looks, "it looked again")

    assert healed.count("store.failed", step="read") - failures <= 1


async def test_gone_with_a_store_that_cannot_be_written(
    healed: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Faults 38, 68: a 410 disables in memory although the store refuses; it is written once it can be."""
    target = "/gone/unwritten?after=0"
    await healed.apply(to(receiver, target, "unwritten"), to(receiver, "/ok/unwritten", "unwritten"))
    with closing(sqlite3.connect(healed.store_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        first = await publisher.publish("unwritten")
        await healed.logged("endpoint.disabled", tenant="unwritten")
        second = await publisher.publish("unwritten")

        await all_delivered(receiver, "/ok/unwritten", [first, second])
        assert [r.webhook_id for r in requests_of(receiver, target)] == [first]

    await shown(healed.entries, lambda entry: entry.label == target and not entry.enabled)
    await healed.parked(1, event_id=first, reason="disabled")


@pytest.fixture
async def on_postgres(
    vhost: str, tmp_path: Path, own_postgres: Postgres
) -> AsyncIterator[tuple[Daemon, EventPublisher]]:
    """A daemon whose store is a PostgreSQL of its own, and an application."""
    settings = {"LEVERET_DATABASE_URL": await own_postgres.database()}
    async with running(tmp_path, vhost, settings) as daemon, EventPublisher(vhost) as publisher:
        yield daemon, publisher


async def test_postgres_stops_and_comes_back(
    on_postgres: tuple[Daemon, EventPublisher], own_postgres: Postgres, receiver: Receiver
) -> None:
    """Fault 68: stopped in the middle: delivery goes on, a command is refused; started: both go on."""
    daemon, publisher = on_postgres
    await daemon.apply(to(receiver, "/ok/pg", "pg"))
    await all_delivered(receiver, "/ok/pg", [await publisher.publish("pg")])

    await own_postgres.stop()
    await until(lambda: daemon.metric("leveret_store_up") == 0, "the gauge says it")
    await all_delivered(receiver, "/ok/pg", [await publisher.publish("pg")])
    await until(lambda: daemon.unready() == "", "/readyz is green")
    assert NOTE in daemon.health()
    with pytest.raises(
        RuntimeError, match=r"leveret: postgresql://127\.0\.0\.1:\d+/test_\w+: cannot be reached"
    ):
        await daemon.cli("subscriptions", "list")

    await own_postgres.start()
    await until(lambda: daemon.metric("leveret_store_up") == 1, "the gauge says that it is well")
    await daemon.apply(to(receiver, "/ok/pg-later", "pg"), signal_it=False)
    await all_delivered(receiver, "/ok/pg-later", [await publisher.publish("pg")])
    assert not (daemon.home / "leveret.db").exists()


async def test_a_lost_key_sends_nothing_unsigned(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 69: started without its key: new events are parked, and replayed once the key is back."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/key", "key"))
        await daemon.stop()
        key = daemon.home / "store.key"
        key.rename(aside := key.with_name("aside"))
        await daemon.start()

        event_id = await publisher.publish("key")
        [entry] = await daemon.parked(1, event_id=event_id)
        assert (entry["reason"], entry["failed_attempts"]) == ("locked", 0)
        assert "store.key: the store's key is missing" in str(entry["detail"])
        assert "locked subscriptions, their secrets cannot be decrypted: 1" in daemon.health()
        await daemon.logged("subscription.locked", tenant="key")

        aside.rename(key)
        await until(lambda: daemon.metric("leveret_subscriptions_locked") == 0, "the key is back")
        await daemon.cli("parked", "replay", str(entry["id"]))
        await all_delivered(receiver, "/ok/key", [event_id])
        assert len(requests_of(receiver, "/ok/key")) == 1


async def test_states_and_entries_are_recorded(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """States of endpoints and parked entries can be read beside the daemon."""
    await shared.apply(
        to(receiver, "/status/503", "noted", retry={"max_attempts": 1}, breaker={"failures": 1})
    )
    event_id = await publisher.publish("noted")
    [entry] = await shared.parked(1, event_id=event_id)

    store = shared.store()
    try:
        rows = await shown(store.parked_index, lambda row: row.tenant == "noted")
        states = await shown(store.endpoint_states, lambda state: state.tenant == "noted")
    finally:
        await store.close()

    assert [(row.id, row.event_id, row.reason, row.code) for row in rows] == [
        (entry["id"], event_id, "exhausted", "503")
    ]
    assert [(s.state, s.subscription_id) for s in states] == [("open", entry["subscription_id"])]

    await shared.cli("parked", "purge", "--older-than", "0s", "--tenant", "noted", "--yes")
    store = shared.store()
    assert list(await store.parked_index(tenant="noted")) == []
    await store.close()
