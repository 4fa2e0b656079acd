"""An inquiry on SQLite and PostgreSQL: the fate of an event, from the history and the store."""

from __future__ import annotations

import time
from typing import Any

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryStatus
from consumer.core.history.trace import EventKey, EventTrace, WaitingNow
from consumer.core.message.parked import delivery_id
from consumer.core.message.records import ParkedRow
from consumer.core.subscription.brief import MatchNow
from consumer.core.subscription.pauses import Pause, Scope
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.operate.inquiry import Ask, Inquiry, SeenWaiting
from consumer.edges.store.rows.records import Batch
from tests.support.stores import Place, apply, shop

NOW = time.time()
SHOP, TILL = subscription_id("acme", "shop"), subscription_id("acme", "till")


def row(event_id: str, step: str = "attempt", at: float = -10.0, **more: Any) -> HistoryRow:
    """A step of acme's event, at seconds from now."""
    fields: dict[str, Any] = {"tenant": "acme", "type": "order.created"}
    if step not in ("received", "unmatched"):
        fields |= {"subscription_id": SHOP}
    return HistoryRow(at=NOW + at, step=step, event_id=event_id, **fields | more)


def parked(entry_id: str, event_id: str, **more: Any) -> ParkedRow:
    """A line of the index of parked entries."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "type": "order.created",
        "subscription_ids": (SHOP,),
        "reason": "exhausted",
        "detail": "HTTP 503",
        "code": "503",
        "attempts": 5,
        "arrived_at": NOW - 100,
        "parked_at": NOW - 5,
        "expires_at": NOW + 1_000,
    }
    return ParkedRow(id=entry_id, event_id=event_id, **fields | more)


async def inquire(place: Place, *rows: HistoryRow) -> Inquiry:
    """Return an inquiry on a store with subscriptions and a history with *rows*."""
    store = place.open()
    await apply(
        store,
        shop(),
        shop(name="till", url="https://till.example/", events=["invoice.*", "refund"]),
        shop(name="old", url="https://old.example/", enabled=False),
        shop(name="held", url="https://held.example/"),
    )
    await store.pause(Pause(scope=Scope.SUBSCRIPTION, name=subscription_id("acme", "held")), lift=False)
    history = place.open_history()
    if rows:
        await history.write(1, HistoryBatch(rows))
    return Inquiry(history, place.open_lookup())


def states(found: EventTrace) -> dict[str, DeliveryStatus]:
    """Return the status of each delivery by its subscription's name."""
    return {each.name: each.state.status for each in found.deliveries}


async def test_an_event_and_those_that_did_not_get_it(place: Place) -> None:
    """S2-7: its arrival, each attempt, its status, and why the others did not get it, as of now."""
    inquiry = await inquire(
        place,
        row("ord-1", "received", -20.0, number=2),
        row("ord-1", at=-9.0, number=2, reason="delivered", status=200),
        row("ord-1", at=-15.0, number=1, reason="retry", wait_ms=100.0, status=503),
        row("ord-2", number=1, reason="delivered", status=200),
    )
    [found] = await inquiry.event("ord-1", NOW)
    assert found.key == EventKey("ord-1", "acme", "order.created")
    assert [each.step for each in found.rows] == ["received"]
    assert states(found) == {"acme/shop": DeliveryStatus.DELIVERED}
    assert [each.number for each in found.deliveries[0].rows] == [1, 2]
    assert found.missing == 1
    assert {miss.subscription.name: miss.match for miss in found.misses} == {
        "till": MatchNow.PATTERN,
        "old": MatchNow.DISABLED,
        "held": MatchNow.PAUSED,
    }
    assert await inquiry.event("ord-9", NOW) == []
    assert await inquiry.event("ord-1", NOW, tenant="beta") == []


async def test_two_tenants_with_one_id(place: Place) -> None:
    """Each tenant has a trace of its own."""
    inquiry = await inquire(place, row("ord-1"), row("ord-1", tenant="beta", subscription_id="sub_b"))
    found = await inquiry.event("ord-1", NOW)
    assert [each.key.tenant for each in found] == ["acme", "beta"]
    assert [each.deliveries[0].name for each in found] == ["acme/shop", ""]


async def test_parked_entries_come_from_the_index(place: Place) -> None:
    """An entry outlives its rows; it is found by its event, and by the id of its delivery."""
    inquiry = await inquire(place, row("ord-2", at=-1.0, number=1, reason="delivered"))
    of = delivery_id("ord-1", SHOP)
    await place.opened[0].records.write(_batch(parked("prk_" + of[4:], "ord-1"), parked("prk_x", "ord-2")))
    [found] = await inquiry.event("ord-1", NOW)
    assert states(found) == {"acme/shop": DeliveryStatus.PARKED}
    assert (found.deliveries[0].attempts, found.deliveries[0].failed) == (5, True)
    [by_delivery] = await inquiry.deliveries(Ask(delivery_id=of), NOW)
    assert by_delivery == found
    [replayed] = await inquiry.event("ord-2", NOW)
    assert states(replayed) == {"acme/shop": DeliveryStatus.DELIVERED}, "the index is older than the rows"


async def test_deliveries_on_the_ladder(place: Place) -> None:
    """A delivery that was seen on the ladder waits, even if the history lacks rows."""
    inquiry = await inquire(place, row("ord-1", number=1, reason="retry", wait_ms=10.0))
    seen = [
        SeenWaiting(EventKey("ord-1", "acme", "order.created"), WaitingNow(target, 3, NOW + 60))
        for target in (SHOP, TILL)
    ]
    [found] = await inquiry.event("ord-1", NOW, waiting=seen)
    assert states(found) == {"acme/shop": DeliveryStatus.WAITING, "acme/till": DeliveryStatus.WAITING}
    assert {each.state.until for each in found.deliveries} == {NOW + 60}
    assert [each.attempts for each in found.deliveries] == [3, 3]


async def test_the_newest_deliveries(place: Place) -> None:
    """A list has the newest matching deliveries, each once, in order of time, with their whole history."""
    failed = [
        row(f"ord-{n}", at=-100.0 + n, number=k, reason="retry", wait_ms=1.0)
        for n in range(6)
        for k in (1, 2)
    ]
    inquiry = await inquire(
        place,
        *failed,
        row("ord-5", at=-50.0, number=3, reason="delivered"),
        row("ord-7", at=-2.0, number=1, reason="delivered"),
        row("ord-8", "unmatched", -1.0),
    )
    found = await inquiry.deliveries(Ask(failed=True, tenant="acme", limit=3), NOW)
    assert [each.key.event_id for each in found] == ["ord-3", "ord-4", "ord-5"]
    assert [len(each.deliveries[0].rows) for each in found] == [2, 2, 3]
    everything = await inquiry.deliveries(Ask(tenant="acme", since=NOW - 60), NOW)
    assert [(each.key.event_id, len(each.deliveries)) for each in everything] == [
        ("ord-5", 1),
        ("ord-7", 1),
        ("ord-8", 0),
    ]
    assert len(await inquiry.deliveries(Ask(subscription_id=SHOP), NOW)) == 7
    [oldest, *_, unmatched] = await inquiry.deliveries(Ask(tenant="acme"), NOW)
    assert (oldest.key.event_id, unmatched.key.event_id) == ("ord-0", "ord-8")
    assert [each.key.event_id for each in await inquiry.deliveries(Ask(tenant="acme", limit=2), NOW)] == [
        "ord-7",
        "ord-8",
    ]


async def test_nothing_is_created(place: Place) -> None:
    """Before there is a store or a history, nothing is known, and no file appears."""
    inquiry = Inquiry(place.open_history(), place.open_lookup())
    assert await inquiry.event("ord-1", NOW) == []
    assert await inquiry.deliveries(Ask(failed=True), NOW) == []
    assert await inquiry.lookup.subscriptions("acme") is None
    assert await inquiry.lookup.subscription(SHOP) is None
    assert not place.home.exists()


def _batch(*rows: ParkedRow) -> Batch:
    return Batch(parked={each.id: each for each in rows})
