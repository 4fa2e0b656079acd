"""What every store promises, and what the file promises beyond that."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from consumer.core.errors import ConfigError
from consumer.core.retry import POLICIES
from consumer.core.subscription import Subscription, subscription_id
from consumer.core.subscription_file import parse_subscriptions
from consumer.core.subscription_model import SubscriptionEntry, SubscriptionRules
from consumer.core.subscription_set import Merge, StoredEntry
from consumer.edges.store import FileStore
from consumer.ports import Store
from tests.fakes_store import MemoryStore, counting_secrets

RULES = SubscriptionRules()
SHOP = subscription_id("acme", "shop")


class AnyStore(Store, Protocol):
    """What the command line needs beyond the port."""

    async def apply(
        self, wanted: Sequence[SubscriptionEntry], *, prune: bool = False, enable: bool = False
    ) -> Merge:
        """Bring *wanted* into the store."""

    def entries(self) -> Sequence[StoredEntry]:
        """Return what is kept."""

    def changed(self) -> bool:
        """Whether it is something else than at the last load."""


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> AnyStore:
    """Give each store in turn."""
    if request.param == "memory":
        return MemoryStore()
    return FileStore(tmp_path / "home", RULES, counting_secrets(), lambda: 1_767_225_600.0)


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    """Give the file store."""
    return FileStore(tmp_path / "home", RULES, counting_secrets())


def shop(**fields: object) -> dict[str, object]:
    """Return one entry, changed by *fields*."""
    return {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"], **fields}


def wanted(*entries: dict[str, object]) -> Sequence[SubscriptionEntry]:
    """Return *entries* as a file would give them."""
    return parse_subscriptions(json.dumps({"subscriptions": list(entries)}), "f", RULES).entries


def by_id(subscriptions: Sequence[Subscription]) -> dict[str, Subscription]:
    """Return *subscriptions* by their id."""
    return {subscription.id: subscription for subscription in subscriptions}


async def test_an_empty_store_has_no_subscriptions(store: AnyStore) -> None:
    """Issue 2, item 7: nothing applied yet means no subscriptions, not an error."""
    assert list(await store.load()) == []
    assert not store.changed()


async def test_what_is_applied_is_loaded(store: AnyStore) -> None:
    """Issue 2, item 7: load gives what the file says, defaults filled in, enabled or not."""
    await store.apply(
        wanted(
            shop(
                retry={"policy": "linear", "max_attempts": 2}, on_status={"404": "park"}, headers={"x-a": "1"}
            ),
            shop(name="off", url="https://off.example/", enabled=False, breaker={"failures": 0}),
        )
    )

    loaded = by_id(await store.load())

    assert len(loaded) == 2
    on, off = loaded[SHOP], loaded[subscription_id("acme", "off")]
    assert (on.retry.base_s, on.retry.max_attempts, on.headers) == (5.0, 2, (("x-a", "1"),))
    assert (on.enabled, off.enabled, off.breaker.failures) == (True, False, 0)
    assert len(on.keys) == 1


async def test_settings_with_a_schedule_still_load_a_stored_formula(tmp_path: Path) -> None:
    """S0-4: one entry's own formula never keeps the whole file from loading after a change of settings."""
    await FileStore(tmp_path, RULES).apply(wanted(shop(retry={"base_s": 2})))

    after = FileStore(tmp_path, SubscriptionRules(retry=POLICIES["standard-webhooks"]))

    (loaded,) = await after.load()
    assert (loaded.retry.base_s, loaded.retry.schedule_s, loaded.retry.max_attempts) == (2.0, None, 5)


async def test_applying_twice_changes_nothing(store: AnyStore) -> None:
    """Outside contract, subscriptions file: apply is idempotent, generated secrets included."""
    first = await store.apply(wanted(shop()))
    before = await store.load()
    second = await store.apply(wanted(shop()))

    assert [len(first.added), len(first.generated)] == [1, 1]
    assert [len(second.unchanged), len(second.generated), len(second.changed)] == [1, 0, 0]
    assert not store.changed()
    assert await store.load() == before


async def test_a_change_keeps_id_and_generated_secret(store: AnyStore) -> None:
    """FAULTS 32, ARCHITECTURE words: a new URL under the same name keeps id and secret."""
    await store.apply(wanted(shop()))
    before = by_id(await store.load())[SHOP]
    report = await store.apply(wanted(shop(url="https://new.example/", timeout_s=3)))

    after = by_id(await store.load())[SHOP]
    assert [entry.id for entry in report.changed] == [SHOP]
    assert (after.url, after.timeout_s) == ("https://new.example/", 3.0)
    assert after.keys == before.keys


async def test_given_secrets_replace_the_generated_one(store: AnyStore) -> None:
    """SW-32: the file's secrets, newest first, are what signs from then on."""
    secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]
    await store.apply(wanted(shop()))
    report = await store.apply(wanted(shop(secrets=secrets)))

    assert not report.generated
    assert len(by_id(await store.load())[SHOP].keys) == 2


async def test_changed_says_so_until_the_next_load(store: AnyStore) -> None:
    """Issue 2, item 7: a daemon that asks each half second sees an apply within a second."""
    await store.load()
    assert not store.changed()
    await store.apply(wanted(shop()))
    assert store.changed()
    await store.load()
    assert not store.changed()


async def test_only_prune_removes(store: AnyStore) -> None:
    """Outside contract, subscriptions file: what a file does not name stays, unless it is asked away."""
    other = shop(name="other", url="https://other.example/")
    await store.apply(wanted(shop(), other))
    kept = await store.apply(wanted(shop()))
    assert (len(kept.removed), len(await store.load())) == (0, 2)

    pruned = await store.apply(wanted(shop()), prune=True)
    assert [entry.label for entry in pruned.removed] == ["other"]
    assert list(by_id(await store.load())) == [SHOP]


async def test_one_subscription_per_url_over_several_files(store: AnyStore) -> None:
    """Words, subscription: a second one for the URL is refused, nothing of the file is stored."""
    await store.apply(wanted(shop()))

    with pytest.raises(ConfigError, match=r"^acme/twin: url: tenant acme has this URL already, as 'shop'"):
        await store.apply(wanted(shop(name="new", url="https://new.example/"), shop(name="twin")))

    assert list(by_id(await store.load())) == [SHOP]
    await store.apply(wanted(shop(name="twin")), prune=True)
    assert len(await store.load()) == 1


async def test_disabling_lasts_over_an_apply_of_the_same_url(store: AnyStore) -> None:
    """FAULTS 38: applying the file again does not enable what a 410 disabled; a new URL or --enable does."""
    await store.apply(wanted(shop()))
    await store.disable(SHOP, "HTTP 410")
    await store.disable(SHOP, "again")
    await store.disable("sub_unknown", "HTTP 410")

    again = await store.apply(wanted(shop(timeout_s=2)))
    assert [entry.disabled_reason for entry in again.still_disabled] == ["HTTP 410"]
    assert again.still_disabled[0].disabled_at == "2026-01-01T00:00:00Z"
    assert not by_id(await store.load())[SHOP].enabled

    await store.apply(wanted(shop(url="https://new.example/")))
    assert by_id(await store.load())[SHOP].enabled

    await store.disable(SHOP, "HTTP 410")
    await store.apply(wanted(shop(url="https://new.example/")), enable=True)
    assert by_id(await store.load())[SHOP].enabled
    assert store.entries()[0].disabled_reason is None


async def test_the_file_is_for_its_owner_alone(files: FileStore) -> None:
    """Issue 2, item 7: the file holds secrets, so folder and file are closed to others."""
    await files.apply(wanted(shop()))

    assert stat.S_IMODE(files.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.path.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in files.path.parent.iterdir()) == [
        "subscriptions.json",
        "subscriptions.lock",
    ]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:-40], r":\d+: is not JSON; restore it, or remove it and apply again$"),
        (lambda text: "", r":1: is not JSON"),
        (lambda text: "[]", r":1: must hold a list `subscriptions`"),
        (lambda text: text.replace('"version": 1', '"version": 99'), r":1: version: must be 1; "),
        (
            lambda text: text.replace("https://shop", "ftp://shop"),
            r":7: subscriptions\[0\]\.url: must begin with",
        ),
        (lambda text: text.replace("whsec_", "whsec_%"), r":\d+: subscriptions\[0\]\.secrets: "),
        (lambda text: "[" * 100_000, r":1: is not JSON"),
        (lambda text: text.replace("shop", "\udcff"), r":1: is not UTF-8 text"),
    ],
)
async def test_a_damaged_file_is_told_by_line_and_left_alone(
    files: FileStore, damage: object, told: str
) -> None:
    """FAULTS 68, 69: a damaged store is a clear error, nothing is overwritten, nothing goes out unsigned."""
    assert callable(damage)
    await files.apply(wanted(shop()))
    damaged: str = damage(files.path.read_text())
    files.path.write_bytes(damaged.encode("utf-8", "surrogateescape"))
    before = files.path.read_bytes()

    for call in (files.load(), files.disable(SHOP, "x"), files.apply(wanted(shop(timeout_s=1)))):
        with pytest.raises(ConfigError, match=f"^{files.path}{told}"):
            await call

    assert files.path.read_bytes() == before


async def test_a_policy_that_is_gone_is_told_at_load(files: FileStore, tmp_path: Path) -> None:
    """Issue 2, item 3: own policies are settings; one that a subscription names cannot vanish silently."""
    own = SubscriptionRules(policies={**POLICIES, "night": POLICIES["linear"]})
    text = json.dumps({"subscriptions": [shop(retry={"policy": "night"})]})
    await FileStore(tmp_path / "home", own).apply(parse_subscriptions(text, "f", own).entries)

    with pytest.raises(ConfigError, match=r"acme/shop: retry.policy: 'night' is none of adr, "):
        await files.load()


async def test_a_full_disk_leaves_the_old_file_and_no_rubbish(files: FileStore) -> None:
    """FAULTS 68: a write that breaks off is an error; the old file stays whole, no half is left."""
    await files.apply(wanted(shop()))
    before = files.path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # a file of ours ends at 100 bytes: EFBIG
    try:
        for call in (files.apply(wanted(shop(timeout_s=1))), files.disable(SHOP, "HTTP 410")):
            with pytest.raises(OSError, match="File too large"):
                await call
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert files.path.read_bytes() == before
    assert len(list(files.path.parent.iterdir())) == 2
    assert by_id(await files.load())[SHOP].enabled


async def test_what_a_killed_writer_left_is_no_hindrance(files: FileStore) -> None:
    """FAULTS 57, 68: half of a new file, left by a kill, is never read and goes with the next write."""
    await files.apply(wanted(shop()))
    left = files.path.with_name("subscriptions.json.new")
    left.write_text('{"version": 1, "subscr')
    left.chmod(0o644)

    assert list(by_id(await files.load())) == [SHOP]
    await files.apply(wanted(shop(timeout_s=2)))
    assert not left.exists()
    assert stat.S_IMODE(files.path.stat().st_mode) == 0o600


async def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """FAULTS 75: applies and disables that meet stand in line; each one's change is there in the end."""
    home = tmp_path / "home"
    names = [f"n{number}" for number in range(12)]

    await asyncio.gather(
        *(
            FileStore(home, RULES).apply(wanted(shop(name=name, url=f"https://{name}.example/")))
            for name in names
        )
    )
    await asyncio.gather(
        *(FileStore(home, RULES).disable(subscription_id("acme", name), "x") for name in names)
    )

    loaded = await FileStore(home, RULES).load()
    assert sorted(subscription.name for subscription in loaded) == sorted(names)
    assert not any(subscription.enabled for subscription in loaded)


def _apply_many(home: str, tenant: str, count: int) -> None:
    store = FileStore(Path(home), RULES)
    for number in range(count):
        entry = shop(tenant=tenant, name=f"n{number}", url=f"https://n{number}.example/")
        asyncio.run(store.apply(wanted(entry)))


def test_processes_stand_in_line_too(tmp_path: Path) -> None:
    """FAULTS 75: the lock holds between processes, and a reader never sees half a file."""
    home = tmp_path / "home"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_apply_many, args=(str(home), tenant, 15)) for tenant in ("a", "b")]
    for writer in writers:
        writer.start()
    reader = FileStore(home, RULES)
    while any(writer.is_alive() for writer in writers):
        reader.entries()  # raises on half a file
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(reader.entries()) == 30


async def test_a_thousand_subscriptions_are_applied_in_time(files: FileStore) -> None:
    """Issue 2, item 7: apply of 1,000 subscriptions takes under 5 s."""
    entries = wanted(*(shop(name=f"n{n}", url=f"https://n{n}.example/") for n in range(1000)))

    began = time.perf_counter()
    report = await files.apply(entries)
    assert len(await files.load()) == 1000

    assert len(report.added) == 1000
    assert time.perf_counter() - began < 5.0


async def test_asking_for_changes_is_one_stat(files: FileStore) -> None:
    """Issue 2, item 7: the daemon asks each half second; it costs microseconds and no thread."""
    await files.apply(wanted(shop()))
    await files.load()
    threads = threading.active_count()

    began = time.perf_counter()
    assert not any(files.changed() for _ in range(1000))

    assert time.perf_counter() - began < 0.5
    assert threading.active_count() == threads
    os.utime(files.path)
    assert files.changed()
