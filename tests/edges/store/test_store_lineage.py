"""Generations and tombstones on both databases: the history of a store and of deleted entries."""

from __future__ import annotations

import getpass
import time
from dataclasses import replace

import pytest
from sqlalchemy import text

from consumer.core.changes.steps import remove
from consumer.core.retry.policy import max_age_s
from consumer.core.store.lineage import Doubt, Generation, judge
from consumer.core.store.tombstone import DAY_S, MARGIN_S
from consumer.edges.store import SqlStore
from consumer.edges.store.rows import lineage
from tests.support.stores import RULES, SHOP, Place, apply, execute, shop, take_back


async def removed(store: SqlStore, by: str | None = None) -> None:
    """Delete the shop."""
    await store.change(lambda kept: remove(kept, {SHOP}), by=by)


async def test_each_change_is_the_next_generation_of_the_same_store(place: Place) -> None:
    """Fault 81: the number grows, the mark is another one, the identity stays, and the past is known."""
    store = place.open()
    seen: list[Generation] = []
    for timeout_s in (1, 2, 3):
        await apply(store, shop(timeout_s=timeout_s))
        await store.load()
        seen.append(store.lineage.generation)

    assert [each.number for each in seen] == [1, 2, 3]
    assert len({each.mark for each in seen}) == 3
    assert len({each.store for each in seen}) == 1
    assert all(store.lineage.contains(each) for each in seen)
    assert not store.lineage.contains(replace_mark(seen[1]))
    assert store.lineage.subscriptions == 1


def replace_mark(generation: Generation) -> Generation:
    """Return the generation that another copy made of the same one."""
    return generation._replace(mark="0" * 16)


async def test_a_store_of_before_begins_its_history_where_it_is(place: Place) -> None:
    """An upgrade: the record cannot be older than the tables, and the present content is known."""
    await apply(place.open(), shop())
    await take_back(place, "0004")

    store = place.open()
    await store.load()

    assert store.lineage.marks == {1: store.lineage.generation.mark}


async def test_adopted_it_is_above_the_record(place: Place) -> None:
    """Fault 81: a restored backup with a number of its own, above the broker's record."""
    store = place.open()
    await apply(store, shop())
    await store.load()
    record = store.lineage.generation._replace(number=40, mark="ff")
    assert judge(store.lineage, record) is Doubt.OLDER

    adopted = await store.adopt(record.number)

    assert adopted.number == 41
    assert await store.changed()
    await store.load()
    assert judge(store.lineage, adopted) is None


async def test_only_so_many_generations_are_remembered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history does not grow for ever."""
    monkeypatch.setattr(lineage, "KEPT", 3)
    store = place.open()
    await apply(store, shop())
    for _ in range(5):
        await store.adopt(0)
    await store.load()

    assert sorted(store.lineage.marks) == [4, 5, 6]


async def test_a_removal_leaves_a_tombstone(place: Place) -> None:
    """Faults 31, 81: when, by whom, and kept for as long as a delivery of it can come up."""
    store, daemon = place.open(), place.open()
    await apply(store, shop(retry={"policy": "standard-webhooks"}))
    await daemon.load()
    assert await daemon.tombstone(SHOP) is None

    before = time.time()
    await removed(store, "leveret subscriptions remove")

    found = await daemon.tombstone(SHOP)
    assert found is not None
    assert (found.id, found.tenant, found.name) == (SHOP, "acme", "shop")
    assert before <= found.deleted_at <= time.time()
    assert found.deleted_by == f"{getpass.getuser()} (leveret subscriptions remove)"
    age_s = max_age_s(RULES.policies["standard-webhooks"])
    assert found.keep_until == pytest.approx(found.deleted_at + age_s + 7 * DAY_S + MARGIN_S)


async def test_pruned_ones_and_a_policy_that_is_gone(place: Place) -> None:
    """Fault 31: `apply --prune` leaves tombstones too; without a policy one is kept for the longest time."""
    store = place.open()
    await apply(store, shop(), shop(name="till", url="https://till.example/"))
    rules = replace(RULES, policies={"slow": replace(RULES.retry, max_age_s=99 * DAY_S)})
    store._changes._options = replace(store._changes._options, rules=rules)
    set_entry = "UPDATE leveret_subscriptions SET entry = "
    await execute(place, set_entry + """'{"retry":{"policy":"gone"},"events":["#"]}'""")

    await removed(store)

    async with store._database.reading() as connection:
        assert connection is not None
        kept = (await connection.execute(text("SELECT deleted_at, keep_until FROM leveret_tombstones"))).one()
    assert kept.keep_until - kept.deleted_at > 99 * DAY_S


async def test_created_anew_it_has_no_tombstone(place: Place) -> None:
    """Fault 31: waiting deliveries are sent to the new one."""
    store = place.open()
    await apply(store, shop())
    await removed(store)
    await apply(store, shop())
    await store.load()

    assert await store.tombstone(SHOP) is None


async def test_old_tombstones_go(place: Place) -> None:
    """Nothing grows for ever: tombstones that no delivery needs go with the next removal."""
    store = place.open()
    await apply(store, shop())
    await removed(store)
    await execute(place, "UPDATE leveret_tombstones SET keep_until = 1")
    await apply(store, shop(name="till", url="https://till.example/"))
    await store.load()

    assert await store.tombstone(SHOP) is None


async def test_a_tombstone_of_another_store_says_nothing(place: Place) -> None:
    """Fault 81: the database was swapped a moment ago: the daemon believes its loaded state."""
    store = place.open()
    await apply(store, shop())
    await removed(store)
    await store.load()
    assert await store.tombstone(SHOP) is not None

    await execute(place, "UPDATE leveret_revision SET store = 'another'")
    assert await store.tombstone(SHOP) is None


async def test_a_daemon_that_never_loaded_sees_no_tombstone(place: Place) -> None:
    """Fault 81: an unloaded state is not believed."""
    store = place.open()
    await apply(store, shop())
    await removed(store)

    assert await place.open().tombstone(SHOP) is None
