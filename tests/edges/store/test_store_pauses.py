"""Pauses are stored beside the subscriptions, and every load applies them."""

from __future__ import annotations

from consumer.core.changes.merge import Merge
from consumer.core.subscription.pauses import Pause, Scope, paused
from consumer.core.subscription.subscription import subscription_id
from tests.support.stores import SHOP, Place, apply, shop

ALL = Pause(scope=Scope.ALL, since=1.0)
ACME = Pause(scope=Scope.TENANT, name="acme", since=2.0)
ONE = Pause(scope=Scope.SUBSCRIPTION, name=SHOP, since=3.0)


async def test_pauses_are_kept_seen_and_lifted_one_by_one(place: Place) -> None:
    """Each pause holds on its own, over restarts, and another process notices it."""
    store, daemon = place.open(), place.open()
    await apply(store, shop())
    await daemon.load()

    assert await store.pause(ACME, lift=False)
    assert not await store.pause(Pause(scope=Scope.TENANT, name="acme", since=9.0), lift=False)
    assert await store.pause(ONE, lift=False)
    assert await daemon.changed()
    [held] = await daemon.load()
    assert held.paused
    assert await place.open().pauses() == [ACME, ONE]

    assert await store.pause(ACME, lift=True)
    [held] = await daemon.load()
    assert held.paused, "the other pause holds on"
    assert await store.pause(ONE, lift=True)
    assert not await store.pause(ONE, lift=True)
    assert await daemon.changed()
    [free] = await daemon.load()
    assert not free.paused


async def test_a_store_that_is_not_there_has_no_pauses(place: Place) -> None:
    """A look makes nothing."""
    assert list(await place.open().pauses()) == []


def test_a_pause_holds_its_scope_and_nobody_else() -> None:
    """All, a tenant, a subscription."""
    for pause, who in ((ALL, ("x", "sub_x")), (ACME, ("acme", "sub_x")), (ONE, ("x", SHOP))):
        assert paused({pause.key}, *who)
    assert not paused({ACME.key, ONE.key}, "x", "sub_x")
    assert not paused((), "acme", SHOP)


async def test_a_load_builds_only_changed_subscriptions(place: Place) -> None:
    """Fault 74: of 10,000 subscriptions the others stay the same objects, paused or not, in their order."""
    store, daemon = place.open(), place.open()
    for name in ("b", "d", "c"):
        await apply(store, shop(name=name, url=f"https://{name}.example/"))
    await store.pause(Pause(scope=Scope.SUBSCRIPTION, name=subscription_id("acme", "d")), lift=False)
    b, c, d = await daemon.load()
    assert (b.paused, c.paused, d.paused) == (False, False, True)

    await apply(store, shop(name="c", url="https://c.example/", timeout_s=9))
    await apply(store, shop(name="a", url="https://a.example/"))

    loaded = await daemon.load()
    assert [s.name for s in loaded] == ["a", "b", "c", "d"]
    assert loaded[1] is b
    assert loaded[2].timeout_s == 9
    assert loaded[3] is d
    await store.change(lambda kept: Merge(entries=kept[1:], removed=kept[:1]))
    assert [s.name for s in await daemon.load()] == ["b", "c", "d"]
