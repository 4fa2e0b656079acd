"""Changes that wait for each other share a transaction, and each is as if it had one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import add, remove
from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.store.audit import AuditFilter
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.store import SqlStore
from consumer.edges.store.rows import opened
from tests.support.stores import Place, apply, execute, many, random_secret, shop, wanted

Step = Callable[[Sequence[StoredEntry]], Merge]


@dataclass(slots=True)
class Adding:
    """A step that adds one subscription and counts the entries that it was given."""

    fields: dict[str, object]
    given: list[int] = field(default_factory=list)

    def __call__(self, kept: Sequence[StoredEntry]) -> Merge:
        """Add it."""
        self.given.append(len(kept))
        [entry] = wanted(self.fields)
        return add(kept, entry, random_secret)


async def together(store: SqlStore, *steps: Step) -> list[Merge | BaseException]:
    """Ask for changes at the same time."""
    return await asyncio.gather(*(store.change(step, who="test") for step in steps), return_exceptions=True)


async def test_changes_that_wait_share_a_transaction(place: Place) -> None:
    """Each starts from the result of the one before, all are stored, and there is one new generation."""
    store = place.open()
    await apply(store, shop())
    before = (await store.read_lineage()).generation.number
    steps = [Adding(fields) for fields in many(20)]

    outcomes = await together(store, *steps)

    assert all(isinstance(outcome, Merge) for outcome in outcomes)
    assert sorted(count for step in steps for count in step.given) == list(range(1, 21))
    assert [entry.label for entry in await store.entries()] == [*(f"n{n:04d}" for n in range(20)), "shop"]
    assert (await store.read_lineage()).generation.number < before + 20
    lines = await store.records.audit.lines(AuditFilter(), 100)
    assert sorted(line.change.target for line in lines) == [f"acme/n{n:04d}" for n in range(20)]


async def test_a_refused_change_does_not_hold_up_the_others(place: Place) -> None:
    """Of two with the same name one is stored; a step that raises changes nothing."""
    store = place.open()
    twins = [Adding(shop(url=f"https://{n}.example/")) for n in range(2)]

    def broken(_: Sequence[StoredEntry]) -> Merge:
        raise ZeroDivisionError

    first, second, fault, other = await together(store, *twins, broken, Adding(many(1)[0]))

    assert isinstance(first, Merge)
    assert isinstance(second, ConfigError)
    assert isinstance(fault, ZeroDivisionError)
    assert isinstance(other, Merge)
    assert [entry.label for entry in await store.entries()] == ["n0000", "shop"]


async def test_one_change_may_build_on_another_of_its_group(place: Place) -> None:
    """A subscription that is added, changed, removed and added again within a group has one row."""
    store, place_of = place.open(), subscription_id("acme", "shop")

    outcomes = await together(
        store,
        Adding(shop()),
        lambda kept: remove(kept, {place_of}),
        Adding(shop(timeout_s=3)),
    )

    assert all(isinstance(outcome, Merge) for outcome in outcomes)
    [entry] = await store.entries()
    assert entry.timeout_s == 3
    assert await store.tombstone(place_of) is None


async def test_a_group_that_cannot_be_written_as_a_whole_is_written_one_by_one(place: Place) -> None:
    """A wrong step, whose rows the database refuses, harms no other."""
    store = place.open()
    [twin] = wanted(shop(name="twin"))

    def unchecked(kept: Sequence[StoredEntry]) -> Merge:
        entry = StoredEntry.model_validate(
            {**twin.model_dump(), "secrets": [random_secret()], "locked": "no"}
        )
        return Merge(entries=[*kept, entry], added=[entry])

    outcomes = await together(store, Adding(many(1)[0]), unchecked, Adding(many(2)[1]))

    assert [type(outcome) for outcome in outcomes] == [Merge, ValueError, Merge]
    assert len(await store.entries()) == 2


async def test_a_caller_that_goes_away_stops_no_other(place: Place) -> None:
    """Its own change is stored or not; those that waited with it are stored."""
    store = place.open()
    tasks = [asyncio.create_task(store.change(Adding(fields))) for fields in many(10)]
    await asyncio.sleep(0)  # all of them wait
    tasks[0].cancel()
    tasks[5].cancel()

    done = await asyncio.gather(*tasks, return_exceptions=True)

    assert [number for number, each in enumerate(done) if isinstance(each, Merge)] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert {f"n{n:04d}" for n in (1, 2, 3, 4, 6, 7, 8, 9)} <= {e.label for e in await store.entries()}


async def test_two_processes_take_turns(place: Place) -> None:
    """Each sees the other's changes, also where it remembers entries: one name is given once."""
    one, other = place.open(), place.open()
    await apply(one, *many(5))
    await other.entries()
    rivals = [
        Adding(shop(name=f"same{n}", url=f"https://{store_of}.example/{n}"))
        for n in range(5)
        for store_of in "ab"
    ]

    outcomes = await asyncio.gather(
        *((one if place_of % 2 else other).change(step) for place_of, step in enumerate(rivals)),
        return_exceptions=True,
    )

    assert sum(isinstance(outcome, Merge) for outcome in outcomes) == 5
    assert sum(isinstance(outcome, ConfigError) for outcome in outcomes) == 5
    assert len(await one.entries()) == len(await other.entries()) == 10


async def test_a_change_by_hand_is_noticed(place: Place) -> None:
    """A row that differs in anything is opened anew, though neither version nor generation has changed."""
    store = place.open()
    await apply(store, shop(), *many(3))
    await store.entries()

    await execute(
        place, "UPDATE leveret_subscriptions SET url = 'https://moved.example/' WHERE name = 'shop'"
    )

    assert {e.label: e.url for e in await store.entries()}["shop"] == "https://moved.example/"
    with pytest.raises(ConfigError, match="already has this URL"):
        await store.change(Adding(shop(name="twin", url="https://moved.example/")))


async def test_only_other_rows_are_opened_again(place: Place) -> None:
    """An entry whose row is unchanged is the same object as before."""
    store = place.open()
    await apply(store, *many(30))
    before = await store.entries()

    await store.change(Adding(shop()))
    after = await store.entries()

    assert len(after) == 31
    assert {id(entry) for entry in before} < {id(entry) for entry in after}


async def test_a_read_of_one_tenant_forgets_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the memory has no room for the rows of that tenant."""
    monkeypatch.setattr(opened, "KNOWN_MAX", 2)
    store = place.open()
    await apply(store, *(shop(tenant=tenant) for tenant in ("a", "b", "z")))
    before = await store.entries()

    await store.entries("z")
    after = await store.entries()

    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True, False]


async def test_remembered_secrets_end_with_their_key(sql_place: Place) -> None:
    """Without its key an entry is locked at once, and it is open again when the key is back."""
    store = sql_place.open()
    await apply(store, shop())
    assert [entry.locked for entry in await store.entries()] == [None]
    key = sql_place.home / "store.key"
    text = key.read_bytes()

    key.unlink()
    assert [entry.locked is None for entry in await store.entries()] == [False]
    key.write_bytes(text)
    assert [entry.locked is None for entry in await store.entries()] == [True]


async def test_a_store_that_is_away_fails_each_change_of_a_group(sql_place: Place) -> None:
    """Each caller gets the fault, once, and nothing is written."""
    store = sql_place.open(STORE__BUSY_TIMEOUT_S="0.1")
    await apply(store, shop())
    sql_place.file.chmod(0o400)
    sql_place.file.unlink()

    outcomes = await together(store, *map(Adding, many(3)))

    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
