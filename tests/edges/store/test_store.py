"""The promises of every store: SQLite, PostgreSQL, and the one in memory for the tests of the flow."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

import pytest

from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import Note, disable, enable
from consumer.core.endpoint.health import gone_note
from consumer.core.errors import ConfigError
from consumer.core.subscription.subscription import subscription_id
from tests.support.fakes_store import MemoryStore
from tests.support.processes.postgres import Postgres
from tests.support.stores import SHOP, AnyStore, Place, apply, by_id, shop


@pytest.fixture(params=["sqlite", "postgres", "memory"])
async def store(
    request: pytest.FixtureRequest, sql_place: Place, postgres: Postgres
) -> AsyncIterator[AnyStore]:
    """Give each store in turn."""
    if request.param == "memory":
        yield MemoryStore()
        return
    sql_place.url = await postgres.database() if request.param == "postgres" else ""
    yield sql_place.open()


async def test_an_empty_store_has_no_subscriptions(store: AnyStore) -> None:
    """Nothing applied yet means no subscriptions, not an error."""
    assert list(await store.entries()) == []
    assert list(await store.load()) == []
    assert not await store.changed()


async def test_applied_subscriptions_are_loaded(store: AnyStore) -> None:
    """Load returns the content of the file, defaults filled in, enabled or not."""
    await apply(
        store,
        shop(retry={"policy": "linear", "max_attempts": 2}, on_status={"404": "park"}, headers={"x-a": "1"}),
        shop(name="off", url="https://off.example/", enabled=False, breaker={"failures": 0}),
    )

    loaded = by_id(await store.load())

    assert len(loaded) == 2
    on, off = loaded[SHOP], loaded[subscription_id("acme", "off")]
    assert (on.retry.base_s, on.retry.max_attempts, on.headers) == (5.0, 2, (("x-a", "1"),))
    assert (on.enabled, off.enabled, off.breaker.failures) == (True, False, 0)
    assert len(on.keys) == 1


async def test_entries_come_back_as_they_were(store: AnyStore) -> None:
    """Every field of an entry survives the way through the store, secrets included."""
    merged = await apply(
        store,
        shop(
            events=["order.*", "invoice.paid"],
            secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "text of 24 or more bytes, raw"],
            retry={"schedule_s": [1, 2.5], "max_age_s": 60},
            on_status={"404": "park", "5xx": "retry"},
            breaker={"failures": 2, "cooldown_s": 1.5},
            concurrency=3,
            timeout_s=2.5,
            headers={"x-api-version": "2"},
            enabled=False,
        ),
        shop(name="Café ☕ 'quoted' \"", url="https://xn--caf-dma.example/?q=%27"),
    )

    kept = await store.entries()

    assert {e.id: e.document() for e in kept} == {e.id: e.document() for e in merged.added}


async def test_applying_twice_changes_nothing(store: AnyStore) -> None:
    """Outside contract, subscriptions file: apply is idempotent, generated secrets included."""
    first = await apply(store, shop())
    before = await store.load()
    second = await apply(store, shop())

    assert [len(first.added), len(first.generated)] == [1, 1]
    assert [len(second.unchanged), len(second.generated), len(second.changed)] == [1, 0, 0]
    assert not await store.changed()
    assert await store.load() == before


async def test_a_dry_run_prints_and_keeps_nothing(store: AnyStore) -> None:
    """``apply --dry-run`` prints the changes; the store stays as it was."""

    def add(kept: Sequence[StoredEntry]) -> Merge:
        assert not kept
        return Merge(entries=(entry,), added=(entry,))

    entry = StoredEntry.model_validate(shop(secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]))
    await store.load()

    told = await store.change(add, write=False)

    assert [entry.label for entry in told.added] == ["shop"]
    assert list(await store.entries()) == []
    assert not await store.changed()


async def test_a_step_that_raises_leaves_the_store_as_it_was(store: AnyStore) -> None:
    """Faults 26, 68: a change is whole or not at all, and the store works on."""
    await apply(store, shop())
    before = await store.load()

    with pytest.raises(ConfigError, match=r"^acme/twin: url: tenant acme already has this URL, as 'shop'"):
        await apply(store, shop(name="new", url="https://new.example/"), shop(name="twin"))

    assert not await store.changed()
    assert await store.load() == before
    await apply(store, shop(name="twin"), prune=True)
    assert [entry.label for entry in await store.entries()] == ["twin"]


async def test_a_change_keeps_id_and_generated_secret(store: AnyStore) -> None:
    """Fault 32: a new URL under the same name keeps id and secret."""
    await apply(store, shop())
    before = by_id(await store.load())[SHOP]
    report = await apply(store, shop(url="https://new.example/", timeout_s=3))

    after = by_id(await store.load())[SHOP]
    assert [entry.id for entry in report.changed] == [SHOP]
    assert (after.url, after.timeout_s) == ("https://new.example/", 3.0)
    assert after.keys == before.keys


async def test_given_secrets_replace_the_generated_one(store: AnyStore) -> None:
    """SW-32: from then on the file's secrets sign, newest first."""
    secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]
    await apply(store, shop())
    report = await apply(store, shop(secrets=secrets))

    assert not report.generated
    assert len(by_id(await store.load())[SHOP].keys) == 2


async def test_two_may_swap_their_urls(store: AnyStore) -> None:
    """Words, subscription: uniqueness after a change is required, and not in the middle of it."""
    one, two = shop(), shop(name="other", url="https://other.example/")
    await apply(store, one, two)

    await apply(store, one | {"url": two["url"]}, two | {"url": one["url"]})

    urls = {entry.label: entry.url for entry in await store.entries()}
    assert urls == {"shop": "https://other.example/", "other": "https://shop.example/"}


async def test_changed_says_so_until_the_next_load(store: AnyStore) -> None:
    """A daemon that asks each half second sees a change, and a removal, within a second."""
    await store.load()
    assert not await store.changed()
    await apply(store, shop())
    assert await store.changed()
    assert await store.changed()
    await store.load()
    assert not await store.changed()
    await apply(store, prune=True)
    assert await store.changed()
    assert list(await store.load()) == []


async def test_only_prune_removes(store: AnyStore) -> None:
    """Outside contract, subscriptions file: an omitted subscription stays, except with `--prune`."""
    other = shop(name="other", url="https://other.example/")
    await apply(store, shop(), other)
    kept = await apply(store, shop())
    assert (len(kept.removed), len(await store.load())) == (0, 2)

    pruned = await apply(store, shop(), prune=True)
    assert [entry.label for entry in pruned.removed] == ["other"]
    assert list(by_id(await store.load())) == [SHOP]


async def test_disabling_lasts_over_an_apply_of_the_same_url(store: AnyStore) -> None:
    """Fault 38: applying the file again enables nothing after a 410; a new URL or --enable does."""
    await apply(store, shop())
    await store.load()
    await store.disable(SHOP, "HTTP 410")
    assert await store.changed()
    await store.disable(SHOP, "again")
    await store.disable("sub_unknown", "HTTP 410")

    again = await apply(store, shop(timeout_s=2))
    assert [entry.disabled_reason for entry in again.still_disabled] == ["HTTP 410"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", again.still_disabled[0].disabled_at or "")
    assert not by_id(await store.load())[SHOP].enabled

    await apply(store, shop(url="https://new.example/"))
    assert by_id(await store.load())[SHOP].enabled

    await store.disable(SHOP, "HTTP 410")
    await apply(store, shop(url="https://new.example/"), enable=True)
    assert by_id(await store.load())[SHOP].enabled
    assert (await store.entries())[0].disabled_reason is None


@pytest.mark.parametrize("reason", ["HTTP 410", "the customer asked for it"])
async def test_whoever_disabled_it_is_known_whatever_the_reason(store: AnyStore, reason: str) -> None:
    """An operator may write the very words of Leveret: only those that Leveret disabled count as such."""
    await apply(store, shop(), shop(name="other", url="https://other.example/"))
    other = subscription_id("acme", "other")
    await store.disable(SHOP, reason)
    await store.change(lambda kept: disable(kept, other, Note(reason, "2027-01-01T00:00:00Z")))
    assert {each: one.disabled_itself for each, one in by_id(await store.load()).items()} == {
        SHOP: True,
        other: False,
    }

    await apply(store, shop(timeout_s=2), shop(name="other", url="https://other.example/", timeout_s=2))
    off = by_id(await store.load())
    assert (off[SHOP].disabled_itself, off[other].disabled_itself) == (True, False)

    await store.change(lambda kept: enable(kept, SHOP))
    await store.change(lambda kept: disable(kept, SHOP, Note(reason, "2027-01-01T00:00:00Z")))
    assert not by_id(await store.load())[SHOP].disabled_itself


async def test_only_an_endpoint_that_leveret_gave_up_is_revived(store: AnyStore) -> None:
    """Not one that an operator disabled with the same words."""
    await apply(store, shop())
    await store.change(lambda kept: disable(kept, SHOP, Note(gone_note(432_000), "2027-01-01T00:00:00Z")))
    await store.revive(SHOP)
    assert not by_id(await store.load())[SHOP].enabled

    await store.change(lambda kept: enable(kept, SHOP))
    await store.disable(SHOP, gone_note(432_000))
    await store.revive(SHOP)
    assert by_id(await store.load())[SHOP].enabled


async def test_other_answers_disable_nothing(store: AnyStore) -> None:
    """Fault 38: the second 410 of an endpoint, or one of a deleted one, makes no daemon reload."""
    await apply(store, shop())
    await store.disable(SHOP, "HTTP 410")
    await store.load()

    await store.disable(SHOP, "again")
    await store.disable("sub_unknown", "HTTP 410")

    assert not await store.changed()
    assert (await store.entries())[0].disabled_reason == "HTTP 410"


async def test_a_change_starts_from_the_stored_state(store: AnyStore) -> None:
    """Fault 33: many add one to the same number at once; no update is lost."""

    def add_one(kept: Sequence[StoredEntry]) -> Merge:
        [old] = kept
        new = old.model_copy(update={"concurrency": (old.concurrency or 0) + 1})
        return Merge(entries=(new,), changed=(new,))

    await apply(store, shop(concurrency=1))

    await asyncio.gather(*(store.change(add_one) for _ in range(10)))

    assert [entry.concurrency for entry in await store.entries()] == [11]


async def test_writers_that_meet_lose_nothing(store: AnyStore) -> None:
    """Faults 33, 75: each change is made from the state that the one before it left."""
    names = [f"n{number}" for number in range(12)]

    await asyncio.gather(*(apply(store, shop(name=n, url=f"https://{n}.example/")) for n in names))
    assert [entry.label for entry in await store.entries()] == sorted(names)

    await asyncio.gather(*(store.disable(subscription_id("acme", name), "x") for name in names))
    assert not any(subscription.enabled for subscription in await store.load())
