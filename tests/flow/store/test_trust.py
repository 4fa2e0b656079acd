"""Trust in the store: the right one is taken over, any other leaves memory and messages alone (fault 81)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from consumer.core.errors import BrokerUnavailable, StoreGone, StoreUnavailable
from consumer.core.store.lineage import Generation
from consumer.flow.base.context import BacklogLimit
from consumer.flow.store.consume_gate import ConsumeGate
from consumer.flow.store.subscriptions import INDEXED_AT_ONCE, Subscriptions
from consumer.flow.store.trust import ALL, BEHIND, FRESH, NOTHING, RECHECK_S, SOON_S, UNREAD_S, Trust
from consumer.flow.take.backlog import Backlog
from consumer.ports import Source
from tests.support.fakes import settled
from tests.support.fakes_store import MemoryRecord, MemoryStore
from tests.support.worker import Worker, event_message

AWAY = StoreUnavailable("a.db: is locked")
OFFLINE = BrokerUnavailable("no connection")


class Place:
    """One worker's subscriptions, its store, and the broker's record."""

    def __init__(self, worker: Worker, record: MemoryRecord) -> None:
        self.worker = worker
        self.record = record
        self.trust = Trust(worker.observe, record, worker.clock.monotonic)
        self.use(worker.store)

    def use(self, store: MemoryStore) -> None:
        """Put *store* where the worker's is; the daemon is another one then, unless nothing was loaded."""
        self.store = store
        worker = self.worker
        self.subscriptions = Subscriptions(
            store, worker.observe, worker.record, self.trust, worker.endpoints.forgive
        )

    async def swap(self, store: MemoryStore) -> bool:
        """Put another store beside the running daemon, which looks at it."""
        self.subscriptions._store = self.store = store
        return await self.subscriptions.reload()


@pytest.fixture
def place(worker: Worker) -> Place:
    """A worker whose broker has no record yet."""
    return Place(worker, MemoryRecord())


async def stored(place: Place, name: str, changes: int = 1) -> MemoryStore:
    """Return a store of its own identity with one subscription, changed a number of times."""
    store = MemoryStore()
    store.name = name
    await place.worker.subscribe("shop")
    entry = (await place.worker.store.entries())[0]
    await store.apply([entry])
    for _ in range(changes - 1):
        await store.disable(entry.id, "x")
        await store.apply([entry], enable=True)
    return store


async def test_the_first_store_is_recorded_without_a_word(place: Place) -> None:
    """An upgrade goes smoothly: a store with subscriptions is right where nothing was recorded yet."""
    place.record.messages = 400
    await place.swap(await stored(place, "a"))

    assert place.record.generation == Generation("a", 1, "1")
    assert (place.trust.reason, place.trust.held) == (None, NOTHING)
    assert place.worker.count("store_trusted") == 1


async def test_an_empty_store_beside_waiting_messages_is_doubted(place: Place) -> None:
    """Fault 81: a home that was made anew by mistake; nothing may be taken, and nothing is recorded."""
    place.record.messages = 1

    assert not await place.subscriptions.reload()

    assert place.trust.held == ALL
    assert "leveret store adopt" in str(place.trust.reason)
    assert place.record.generation is None
    assert place.worker.count("store_trusted") == 0
    assert len(place.worker.log.events("store.doubted")) == 1


async def test_an_empty_store_on_an_empty_broker_is_a_first_start(place: Place) -> None:
    """`make run` in a new folder is ready at once; the first store that holds something replaces it."""
    assert await place.subscriptions.reload()

    other = Place(place.worker, place.record)
    assert await other.swap(await stored(place, "b"))
    assert place.record.generation == Generation("b", 1, "1")


@pytest.mark.parametrize(
    ("record", "doubt"),
    [
        (Generation("other", 3, "x"), "foreign"),
        (Generation("a", 9, "9"), "older"),
        (Generation("a", 3, "of-another-branch"), "diverged"),
    ],
)
async def test_another_store_is_doubted_at_the_start(place: Place, record: Generation, doubt: str) -> None:
    """Fault 81: a foreign store, yesterday's backup, a copy that was changed apart: nothing is consumed."""
    place.record.generation = record

    assert not await place.swap(await stored(place, "a", changes=3))

    assert place.trust.held == ALL
    assert [line["doubt"] for line in place.worker.log.events("store.doubted")] == [doubt]
    assert place.record.generation == record
    assert list(place.subscriptions.ids()) == []


async def test_a_store_that_is_newer_than_the_record_is_the_right_one(place: Place) -> None:
    """A change by the command line while no daemon ran; the record follows."""
    place.record.generation = Generation("a", 2, "2")

    assert await place.swap(await stored(place, "a", changes=3))
    assert place.record.generation == place.store.lineage.generation


async def test_memory_goes_on_while_another_store_is_beside_it(place: Place) -> None:
    """Fault 81: the folder was replaced under a running daemon: it delivers from memory, and reports it."""
    right = await stored(place, "a", changes=2)
    assert await place.swap(right)

    assert not await place.swap(await stored(place, "b", changes=9))
    assert place.trust.held == NOTHING
    assert "another store" in str(place.trust.reason)
    assert await place.subscriptions.tombstone("sub_x") is None
    assert len(place.subscriptions.match("acme", "x")) == 1

    assert await place.swap(right)
    assert place.trust.reason is None


async def test_a_backup_that_is_restored_under_a_daemon_waits_for_the_operator(place: Place) -> None:
    """Fault 81: older, it is not taken over; adopted, it is."""
    assert await place.swap(await stored(place, "a", changes=5))
    backup = await stored(place, "a", changes=2)

    assert not await place.swap(backup)
    assert "is older" in str(place.trust.reason)
    assert place.trust.held == NOTHING

    assert place.record.generation is not None
    place.record.generation = await backup.adopt(place.record.generation.number)
    assert await place.subscriptions.reload()
    assert place.trust.reason is None


async def test_sources_that_memory_does_not_cover_are_not_consumed(place: Place) -> None:
    """Fault 81: an operator adopted another store elsewhere: this worker's memory is wrong from then on."""
    assert await place.swap(await stored(place, "a"))
    place.record.generation = Generation("b", 7, "7")

    await place.subscriptions.compare()

    assert place.trust.held == ALL
    assert place.record.generation == Generation("b", 7, "7")


async def test_a_store_that_is_away_stops_nothing_unless_others_know_more(place: Place) -> None:
    """Faults 68, 81: delivery goes on; only events that a newer subscription may want stay in their lanes."""
    assert await place.swap(await stored(place, "a"))
    place.store.failure = AWAY
    assert not await place.subscriptions.reload()
    assert (place.trust.reason, place.trust.held) == (None, NOTHING)

    place.record.generation = Generation("a", 9, "9")
    place.trust.heard(place.record.generation)
    await place.worker.clock.advance(SOON_S)
    assert not await place.subscriptions.reload()
    assert (place.trust.reason, place.trust.held) == (BEHIND, FRESH)


async def test_a_store_that_has_gone_is_red_and_comes_back(place: Place) -> None:
    """Fault 81: the file was deleted under a running daemon."""
    assert await place.swap(await stored(place, "a"))
    place.store.failure = StoreGone("a.db: has gone")

    assert not await place.subscriptions.stale()
    assert "has gone" in str(place.trust.reason)
    assert place.trust.held == NOTHING

    place.store.failure = None
    assert not await place.subscriptions.stale()
    assert place.trust.reason is None


async def test_without_the_broker_only_a_formerly_right_store_is_admitted(place: Place) -> None:
    """Fault 81: at a start the right store is unknown; a running daemon compares with its last load."""
    place.record.failure = OFFLINE
    right = await stored(place, "a")
    assert not await place.swap(right)
    assert (place.trust.reason, place.trust.held) == (None, ALL)

    place.record.failure = None
    assert await place.subscriptions.reload()
    place.record.failure = OFFLINE
    await right.disable((await right.entries())[0].id, "x")
    assert await place.subscriptions.reload()
    assert not await place.swap(await stored(place, "b"))
    assert place.trust.held == NOTHING


async def test_a_record_that_was_lost_is_written_again(place: Place) -> None:
    """The queue was purged: the state in memory was right, and is recorded again; another store is not."""
    assert await place.swap(await stored(place, "a"))
    place.record.generation = None
    assert not await place.swap(await stored(place, "b"))
    assert place.record.generation is None

    assert await place.swap(await stored(place, "a"))
    assert place.record.generation == Generation("a", 1, "1")


async def test_the_record_is_compared_when_there_is_a_reason(place: Place) -> None:
    """Once in half a minute, soon after a worker named another generation, at once when asked."""
    assert await place.swap(await stored(place, "a"))
    clock = place.worker.clock
    assert not place.trust.due()

    place.trust.heard(place.store.lineage.generation)
    await clock.advance(SOON_S)
    assert not place.trust.due()
    place.trust.heard(Generation("b", 1, "1"))
    assert place.trust.due()
    await place.subscriptions.compare()
    assert not place.trust.due()
    place.trust.ask()
    assert place.trust.due()
    await place.subscriptions.compare()
    await clock.advance(RECHECK_S)
    assert place.trust.due()


def test_held_sources_are_consumed_only_once_memory_is_right() -> None:
    """Fault 81: many patterns are indexed in a thread; until then events would pass as unmatched."""

    async def reload_beside_the_loop() -> None:
        place = Place(Worker(), MemoryRecord())
        narrow = await stored(place, "a")
        [entry] = await narrow.entries()
        await narrow.apply([entry.model_copy(update={"events": ["invoice.#"]})])
        assert await place.swap(narrow)
        wide = await stored(place, "b")
        place.record.generation = Generation("b", 1, "1")
        await place.subscriptions.compare()
        assert place.trust.held == ALL
        patterns = [f"order.{number}.#" for number in range(INDEXED_AT_ONCE + 1)]
        await wide.apply([entry.model_copy(update={"events": patterns})])
        seen: list[bool] = []
        place.trust.changes.add(lambda: seen.append(bool(place.subscriptions.match("acme", "order.7.x"))))

        assert await place.swap(wide)

        assert seen == [True]
        assert place.trust.held == NOTHING

    asyncio.run(reload_beside_the_loop())


async def test_a_store_that_changes_while_the_record_is_read_is_not_doubted(place: Place) -> None:
    """Fault 81: another worker took a newer generation over just before: this one reads it, too."""
    right = await stored(place, "a", changes=3)
    assert await place.swap(right)
    [entry] = await right.entries()

    async def newer() -> None:
        await right.disable(entry.id, "x")
        place.record.generation = Generation("a", 4, "4")

    place.record.before = newer
    await place.subscriptions.compare()
    assert (place.trust.reason, place.trust.held) == (None, NOTHING)

    assert await place.subscriptions.stale()
    assert await place.subscriptions.reload()
    assert place.worker.log.events("store.doubted") == []


async def test_an_unreadable_record_is_reported_once(place: Place) -> None:
    """Fault 81: a worker that may not read the record starts red; its log contains the reason."""
    place.record.failure = BrokerUnavailable("queue leveret.store: access refused")

    for _ in range(3):
        assert not await place.subscriptions.reload()
        await place.worker.clock.advance(UNREAD_S)

    [line] = place.worker.log.events("store.unconfirmed")
    assert "access refused" in str(line["detail"])


class Door:
    """A gate, and the sources that it closes at the edge."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.trust = Trust(worker.observe, MemoryRecord())
        self.backlog = Backlog(BacklogLimit(limit_bytes=10), worker.context.weight, worker.observe)
        self.left: list[frozenset[Source]] = []
        self.gate = ConsumeGate(self.trust, self.backlog, worker.intake, self._leave, worker.observe)

    async def _leave(self, sources: frozenset[Source]) -> None:
        self.left.append(sources)

    async def hold(self, sources: frozenset[Source]) -> None:
        """Let the trust hold *sources*."""
        self.trust.held = sources
        self.trust.changes.notify()
        await settled()


@pytest_asyncio.fixture
async def door(worker: Worker) -> AsyncIterator[Door]:
    """A gate that runs."""
    door = Door(worker)
    task = asyncio.create_task(door.gate.run())
    yield door
    assert not task.done()
    task.cancel()


async def test_nothing_is_consumed_before_the_gate_opens(door: Door) -> None:
    """Fault 81: neither trust nor relief opens it: endpoints are recalled first."""
    await door.hold(NOTHING)
    assert door.left == []

    door.gate.open()
    await settled()
    assert door.left == [NOTHING]


async def test_messages_in_hand_go_back_when_the_store_is_doubted(door: Door) -> None:
    """Fault 81: unstarted messages are given back, and nothing starts until the store is right again."""
    await door.hold(NOTHING)
    door.gate.open()
    await settled()
    door.worker.intake.pause()
    ticket = door.worker.offer(event_message())

    await door.hold(ALL)
    assert ticket.settles == ["requeue"]
    late = door.worker.offer(event_message())
    await settled()
    assert late.settles == []
    await door.hold(FRESH)
    await door.hold(NOTHING)
    await door.worker.intake.idle()

    assert door.left == [NOTHING, ALL, FRESH, NOTHING]


async def test_nothing_starts_from_the_moment_of_the_doubt_on(door: Door) -> None:
    """Fault 81: also while the edge still carries out the earlier wish."""
    slow = asyncio.Event()

    async def leave(sources: frozenset[Source]) -> None:
        door.left.append(sources)
        if not slow.is_set():
            await slow.wait()

    door.gate._leave = leave
    door.trust.held = NOTHING
    door.gate.open()
    await settled()

    await door.hold(ALL)
    ticket = door.worker.offer(event_message())
    await settled()
    assert ticket.settles == []
    slow.set()
    await settled()

    assert ticket.settles == ["requeue"]
    assert door.left == [NOTHING, ALL]


async def test_a_full_backlog_leaves_fresh_events_alone_too(door: Door) -> None:
    """[limits] waiting_bytes: as before, beside the doubts."""
    await door.hold(NOTHING)
    door.gate.open()
    door.backlog.queues_sized({"wait": 1}, 0.0)
    await settled()
    assert door.left[-1] == FRESH

    door.gate.lock()
    door.backlog.queues_sized({"wait": 0}, 0.0)
    await settled()
    assert door.left[-1] == FRESH, "a worker that stops follows nothing"
