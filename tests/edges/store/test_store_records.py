"""States of endpoints and the index of parked entries: best effort, bounded, never in the way."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from consumer.core.endpoint.health import Failing, Health, gone_note
from consumer.core.errors import StoreUnavailable
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.records import EndpointState, parked_row
from consumer.core.model import Attempt, OutcomeKind, ParkReason, RawMessage
from consumer.core.subscription.subscription import Subscription, endpoint_id, subscription_id
from consumer.edges.store import StoreRecorder
from consumer.edges.store.rows.records import Batch
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.builders.index_rows import batch, row
from tests.support.fakes import RecordingLog
from tests.support.stores import Place, apply, by_id, shop
from tests.support.worker import event

NOW = 1_767_225_600.0


def state(name: str = "shop", **more: Any) -> EndpointState:
    """A state of one of the test's endpoints."""
    fields: dict[str, Any] = {
        "endpoint": endpoint_id("acme", f"https://{name}.example/"),
        "tenant": "acme",
        "subscription_id": subscription_id("acme", name),
        "state": "open",
        "epoch": 1,
        "since": NOW,
    }
    return EndpointState(**fields | more)


async def test_the_newest_word_of_an_endpoint_stays(place: Place) -> None:
    """Fault 75: a worker's late note, after an outage, does not overwrite a newer one."""
    store = place.open()
    await apply(store, shop(), shop(name="crm", url="https://crm.example/"))
    await store.records.write(batch(states=(state(), state("crm", state="probing"))))
    await store.records.write(batch(states=(state(state="closed", since=NOW + 5, epoch=0),)))
    await store.records.write(batch(states=(state(state="open", since=NOW + 2, epoch=9),)))

    shown = {s.endpoint: s for s in await place.open().endpoint_states()}

    assert len(shown) == 2
    kept = shown[state().endpoint]
    assert (kept.state, kept.epoch, kept.since) == ("closed", 0, NOW + 5)
    assert kept.updated == pytest.approx(time.time(), abs=60)


async def test_a_word_from_the_future_does_not_stay(place: Place) -> None:
    """Fault 82: the clock was set back by a day since it was written: the next note replaces it."""
    store = place.open()
    await apply(store, shop())
    now = time.time()
    await store.records.write(batch(states=(state(since=now + 86_400),)))
    await store.records.write(batch(states=(state(state="closed", since=now),)))

    [shown] = await place.open().endpoint_states()

    assert (shown.state, shown.since) == ("closed", now)


async def test_after_a_step_of_the_clock_times_are_written_anew(place: Place) -> None:
    """Fault 82: a pause is no longer than it was, and failures are as old, for a worker that starts now."""
    store = place.open()
    await apply(store, shop())
    recorder = StoreRecorder(store.records, Observer(Series(CollectorRegistry()), RecordingLog()), time.time)
    [sub] = [s for s in await store.load() if s.name == "shop"]
    here, soon = endpoint_id("acme", sub.url), time.time() + 600
    recorder.hold(sub, soon + 3_600)
    recorder.health(sub, Health(Failing(NOW - 86_400.0, counts=True), NOW - 90_000.0))
    assert await recorder.flush()

    recorder.hold(sub, soon, anew=True)
    recorder.health(sub, Health(Failing(NOW, counts=True)), anew=True)
    assert await recorder.flush()
    recorder.hold(sub, soon - 300)  # a later end stays, as ever
    assert await recorder.flush()

    assert await place.open().records.holds() == {here: soon}
    assert await place.open().records.healths() == {here: Health(Failing(NOW, counts=True))}


async def test_a_state_goes_with_its_endpoint(place: Place) -> None:
    """Faults 31, 32, 38: removed, moved or enabled again: notes about the old endpoint are over."""
    store = place.open()
    names = ("removed", "moved", "enabled", "stays")
    entries = {name: shop(name=name, url=f"https://{name}.example/") for name in names}
    await apply(store, *entries.values())
    await store.disable(subscription_id("acme", "enabled"), "HTTP 410")
    await store.records.write(batch(states=tuple(state(name, state="disabled") for name in names)))

    moved = entries["moved"] | {"url": "https://elsewhere.example/"}
    await apply(store, moved, entries["enabled"], entries["stays"], prune=True, enable=True)

    assert [s.subscription_id for s in await store.endpoint_states()] == [subscription_id("acme", "stays")]
    await store.records.write(batch(states=(state("removed"),)))  # noted too late
    assert len(await store.endpoint_states()) == 1


async def test_the_index_is_read_newest_first(place: Place) -> None:
    """S1-13: by tenant, at most so many; every field as it was written."""
    store = place.open()
    strange = row(4, tenant=None, event_id=None, type=None, subscription_ids=(), code=None, arrived_at=None)
    await store.records.write(batch(row(1), row(2, tenant="beta"), row(3), strange))

    index = await store.parked_index()
    assert [r.id for r in index] == [row(n).id for n in (4, 3, 2, 1)]
    assert index[0] == strange
    assert [r.event_id for r in await store.parked_index(tenant="acme")] == ["evt_3", "evt_1"]
    assert [r.event_id for r in await store.parked_index(limit=2)] == [None, "evt_3"]


async def test_the_index_counts_the_messages_of_the_queue(place: Place) -> None:
    """S1-13: an entry that a crash parked twice is one row of two messages; expired ones do not count."""
    store = place.open()
    assert await store.records.count_parked() == 0
    await store.records.write(
        batch(row(1, messages=2, replays=3, shown="{}"), row(2), row(3, expires_at=1.0))
    )

    assert await store.records.count_parked() == 3
    assert [(r.messages, r.replays, r.shown) for r in await store.parked_index()] == [
        (1, 0, ""),
        (2, 3, "{}"),
    ]


async def test_the_index_is_bounded(place: Place) -> None:
    """S1-4: the newest lines stay; replayed, archived and expired ones go; twice is once."""
    store = place.open(STORE__PARKED_INDEX_MAX="5")
    await store.records.write(batch(row(1), row(2, expires_at=1.0)))
    await store.records.write(batch(*(row(n) for n in range(3, 10)), gone=(row(1).id,)))
    await store.records.write(batch(row(9, attempts=6)))

    left = await store.parked_index()

    assert [r.id for r in left] == [row(n).id for n in (9, 8, 7, 6, 5)]
    assert left[0].attempts == 6
    none = place.open(STORE__PARKED_INDEX_MAX="0")
    await none.records.write(batch(row(20)))
    assert row(20).id not in {r.id for r in await none.parked_index()}


async def test_entries_that_left_the_queue_leave_the_index(place: Place) -> None:
    """S1-5: by replay or purge; an entry that was parked again stays, and no store is made for it."""
    await place.open().forget_parked({row(1).id: NOW})
    assert not place.home.exists()
    store = place.open()
    await store.records.write(batch(row(1), row(2), row(3)))

    await store.forget_parked({row(1).id: NOW + 0.9995, row(2).id: NOW + 1, "prk_gone": NOW})

    assert [r.id for r in await store.parked_index()] == [row(3).id, row(2).id]


class Desk:
    """A recorder on a real store that can be away, with its counts and log lines."""

    def __init__(self, place: Place, pending_max: int = 100) -> None:
        self.is_away = False
        self.series = Series(CollectorRegistry())
        self.log = RecordingLog()
        self.store = place.open()
        observe = Observer(self.series, self.log)
        self.recorder = StoreRecorder(self, observe, lambda: NOW, pending_max)

    async def write(self, batch: Batch) -> None:
        """Write into the store, unless it is away."""
        if self.is_away:
            raise StoreUnavailable("a.db: is locked")
        await self.store.records.write(batch)

    def count(self, name: str) -> float:
        """Read a metric."""
        return self.series.registry.get_sample_value(f"leveret_{name}") or 0.0


async def subscription(desk: Desk) -> Subscription:
    """Return the subscription that the states are of."""
    await apply(desk.store, shop())
    return by_id(await desk.store.load())[subscription_id("acme", "shop")]


def parked(number: int) -> ParkedEntry:
    """A parked delivery."""
    attempt = Attempt(number=1, at=NOW, kind=OutcomeKind.DNS, status=None, duration_s=0.1)
    message = DeliveryMessage(
        event=event(id=f"evt_{number}"), targets=("sub_1",), attempts=(attempt,), attempts_made=1
    )
    return ParkedEntry(
        id=f"prk_{number:016x}",
        reason=ParkReason.EXHAUSTED,
        detail="dns",
        parked_at=time.time(),
        ttl_s=60.0,
        body=b"",
        delivery=message,
    )


async def test_notes_to_the_recorder_are_written(place: Place) -> None:
    """In the background; the newest state of an endpoint, each entry with its numbers."""
    desk = Desk(place)
    shop_ = await subscription(desk)
    running = asyncio.create_task(desk.recorder.run())
    for name in ("closed", "open", "probing"):
        desk.recorder.endpoint(shop_, name, epoch=3)
    desk.recorder.parked(parked_row(parked(1)))
    desk.recorder.parked(parked_row(parked(2)))
    desk.recorder.unparked(parked(2).id)

    async with asyncio.timeout(20):
        while not await desk.store.endpoint_states():  # noqa: ASYNC110 (another connection tells)
            await asyncio.sleep(0.02)
    running.cancel()

    states = await desk.store.endpoint_states()
    assert [(s.state, s.epoch, s.since) for s in states] == [("probing", 3, NOW)]
    [line] = await desk.store.parked_index()
    assert (line.event_id, line.code, line.attempts, line.subscription_ids) == ("evt_1", "dns", 1, ("sub_1",))


async def test_a_store_that_was_away_gets_the_missed_changes(place: Place) -> None:
    """Fault 68: states are kept and written at recovery; lines of the index up to a bound, then counted."""
    desk = Desk(place, pending_max=3)
    shop_ = await subscription(desk)
    await apply(desk.store, shop(name="crm", url="https://crm.example/"))
    crm = by_id(await desk.store.load())[subscription_id("acme", "crm")]
    desk.is_away = True
    desk.recorder.endpoint(shop_, "open", epoch=1)
    desk.recorder.endpoint(crm, "open", epoch=1)
    desk.recorder.health(crm, Health(Failing(NOW)))
    for number in range(5):
        desk.recorder.parked(parked_row(parked(number)))
        assert not await desk.recorder.flush()
    desk.recorder.endpoint(shop_, "probing", epoch=2)
    assert (desk.count("records_dropped_total"), desk.count("store_up")) == (2, 0)
    assert len(desk.log.events("store.failed")) == 1

    desk.is_away = False
    await desk.recorder.finish()

    states = {s.subscription_id: (s.state, s.epoch) for s in await desk.store.endpoint_states()}
    assert states == {shop_.id: ("probing", 2), crm.id: ("open", 1)}
    assert await desk.store.records.healths() == {state("crm").endpoint: Health(Failing(NOW))}
    assert {line.event_id for line in await desk.store.parked_index()} == {"evt_2", "evt_3", "evt_4"}
    assert desk.count("store_up") == 1


async def test_a_producers_words_do_no_harm(place: Place) -> None:
    """Faults 8, 51: the text of a strange message, or of an endpoint, is written short and safe."""
    desk = Desk(place)
    raw = RawMessage(
        body=b"",
        headers={"tenant": ["a", {"b": "\x00"}]},
        exchange="e",
        routing_key="\x00\x1b[31m\ud800" + "k" * 1_000,
        message_id="'; DROP TABLE leveret_subscriptions; --",
    )
    entry = ParkedEntry(
        id="prk_1", reason=ParkReason.BAD_TENANT, detail="\x00no", parked_at=NOW, ttl_s=9e9, body=b"", raw=raw
    )

    desk.recorder.parked(parked_row(entry))
    shop_ = await subscription(desk)
    desk.recorder.endpoint(shop_, "disabled", epoch=0, reason="gone\x00\ud800" + "x" * 5_000)
    await desk.recorder.finish()
    await desk.store.disable(shop_.id, "gone\x00\ud800")

    assert [(s.reason[:15], len(s.reason)) for s in await desk.store.endpoint_states()] == [
        ("gone\\x00\\ud800x", 1_000)
    ]
    assert [e.disabled_reason for e in await desk.store.entries()] == ["gone\\x00\\ud800"]
    [line] = await desk.store.parked_index()
    assert line.event_id == raw.message_id
    assert (line.detail, line.subscription_ids, line.attempts) == ("\\x00no", (), 0)
    assert line.type is not None
    assert line.type.startswith("\\x00\\x1b[31m\\ud800k")
    assert len(line.type) == 256


async def test_failures_are_joined_and_outlive_a_restart(place: Place) -> None:
    """SW-41, decision 16: for every order of writers, the earliest failure stays until there is a success."""
    store, other = place.open(), place.open()
    await apply(store, shop())
    endpoint = state().endpoint
    first, later = Failing(NOW, counts=True), Failing(NOW + 50.0, counts=True)

    await store.records.write(Batch(healths={endpoint: Health(first, NOW - 9.0)}))
    await other.records.write(Batch(healths={endpoint: Health(later)}))
    assert await place.open().records.healths() == {endpoint: Health(first, NOW - 9.0)}

    await store.records.write(Batch(healths={endpoint: Health(None, NOW + 60.0)}))
    await other.records.write(Batch(healths={endpoint: Health(later)}))
    assert await place.open().records.healths() == {endpoint: Health(None, NOW + 60.0)}


async def test_failures_go_with_their_endpoint(place: Place) -> None:
    """Enabled again, by hand or by the slow probe, it begins anew; a look makes no store."""
    assert await place.open().records.healths() == {}
    assert not place.home.exists()
    store = place.open()
    await apply(store, shop(), shop(name="crm", url="https://crm.example/"))
    both = {state(name).endpoint: Health(Failing(NOW)) for name in ("shop", "crm")}
    await store.records.write(Batch(healths=both))
    await store.disable(subscription_id("acme", "shop"), f"{gone_note(432_000.0)}: HTTP 503")
    await store.disable(subscription_id("acme", "crm"), "HTTP 410")
    assert [s.gone for s in await store.load()] == [False, True]

    for name in ("shop", "crm"):
        await store.revive(subscription_id("acme", name))

    enabled = {s.name: s.enabled for s in await store.load()}
    assert enabled == {"shop": True, "crm": False}
    assert list(await store.records.healths()) == [state("crm").endpoint]


async def test_a_pause_outlives_its_worker(place: Place) -> None:
    """Fault 39, decision 16: the later end stays until it is over; it goes with its endpoint."""
    assert await place.open().records.holds() == {}
    assert not place.home.exists()
    desk = Desk(place)
    shop_ = await subscription(desk)
    soon, later = time.time() + 60, time.time() + 600
    at, crm = state().endpoint, state("crm").endpoint
    desk.is_away = True
    desk.recorder.hold(shop_, later)
    assert not await desk.recorder.flush()
    desk.is_away = False
    await desk.recorder.finish()
    await desk.store.records.write(Batch(holds={at: soon, crm: 1.0}))

    assert await place.open().records.holds() == {at: later, crm: 1.0}
    await desk.store.records.write(Batch(holds={"elsewhere": soon}))
    assert await place.open().records.holds() == {at: later, "elsewhere": soon}
    desk.recorder.hold(shop_, 0.0)
    await desk.recorder.finish()
    assert list(await desk.store.records.holds()) == ["elsewhere"]
    await desk.store.records.write(Batch(holds={at: later}))
    await apply(desk.store, shop(url="https://moved.example/"))
    assert list(await desk.store.records.holds()) == ["elsewhere"]


async def test_decisions_by_hand_wait_for_the_next_worker(place: Place) -> None:
    """S3-3, decision 16: the next epoch after every state; a reset ends the endpoint's pause too."""
    store = place.open()
    await apply(store, shop())
    await store.records.write(Batch(states={state().endpoint: state(epoch=7)}, holds={state().endpoint: 9e9}))

    for _ in range(2):
        await store.records.decide(state(state="forced", epoch=0, since=NOW + 9))

    [kept] = await place.open().endpoint_states()
    assert (kept.state, kept.epoch, kept.since) == ("forced", 1000, NOW + 9)
    assert list(await store.records.holds()) == [state().endpoint]
    await store.records.decide(state(state="closed", epoch=0, since=NOW + 19))
    [kept] = await place.open().endpoint_states()
    assert (kept.state, kept.epoch) == ("closed", 2000)
    assert await store.records.holds() == {}
