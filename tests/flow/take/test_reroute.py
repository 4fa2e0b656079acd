"""A noisy tenant's way around the lanes: bound, moved, emptied, unbound; nothing stays in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from consumer.core.fairness.noisy_tenants import TenantLimit, spill_index
from consumer.core.message.delivery import DeliveryMessage, read_delivery, unwrap_raw
from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.flow.take.reroute import Reroute
from consumer.ports import Source
from tests.support.fakes import Published
from tests.support.fakes_routes import FakeRoutes
from tests.support.worker import DUE, NAMES, Worker, delivery_message, event, event_message

SPILL = NAMES.spill(spill_index("acme", 4))
SPILL_KEY = NAMES.direct_key(SPILL)


class Flood:
    """A worker with 20 slots, a tenant with endless work, and the routine under test."""

    def __init__(self, **bounds: Any) -> None:
        self.routes = FakeRoutes()
        self.routes.stands[NAMES.lane(0)] = 100  # the lane holds more than its window
        self.worker = Worker(concurrency=20, lane_window=100, quick_latency_s=1e6, **bounds)
        self.tenants = 2
        self.reroute = Reroute(self.worker.context, self.worker.intake, self.routes, lambda: self.tenants)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the routine beside the test; every request takes a second."""
        self.worker.sender.latency_s["https://shop.example/"] = 1.0
        await self.worker.subscribe("shop", concurrency=100)
        task = asyncio.create_task(self.reroute.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.worker.intake.idle()
        assert self.worker.bugs() == []

    def flood(self, count: int = 400) -> None:
        """Put events of one tenant into the window."""
        for number in range(count):
            self.worker.offer(event_message(message_id=f"a-{number}"))

    def rerouted(self) -> dict[str, str]:
        """Return the spill queue of each tenant that is rerouted now, as the log reports it."""
        found: dict[str, str] = {}
        for _, name, fields in self.worker.log.lines:
            if name in ("tenant.spilled", "tenant.adopted"):
                found[str(fields["tenant"])] = str(fields["queue"])
            elif name == "tenant.returned":
                found.pop(str(fields["tenant"]))
        return found

    def confirmed_at(self, published: Published) -> int:
        """Return the place in the journal of a moved event's confirm."""
        steps = enumerate(self.worker.journal)
        [place] = [n for n, s in steps if s.what == "confirmed" and s.publication is published.publication]
        return place

    def acked_at(self, published: Published) -> int:
        """Return the place in the journal of the ack of the flood's event that was moved."""
        number = int(str(unwrap_raw(published.raw()).message_id).removeprefix("a-"))
        ticket, steps = self.worker.tickets[number], enumerate(self.worker.journal)
        [place] = [n for n, s in steps if s.what == "ack" and s.of == ticket.name]
        return place

    def moved(self) -> list[Published]:
        """Return what was moved into the spill queue."""
        return self.worker.publisher.to(SPILL_KEY)


async def test_a_flood_is_bound_and_moved_after_ten_seconds() -> None:
    """Fault 71: not before; then its events go to one spill queue, confirmed before the ack."""
    desk = Flood()
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(9.9)
        assert desk.routes.bindings == set()
        assert desk.moved() == []

        await desk.worker.clock.advance(3)

        assert desk.routes.bindings == {("acme", SPILL)}
        assert len(desk.moved()) >= 20
        assert desk.rerouted() == {"acme": SPILL}
        assert desk.worker.count("noisy_tenants") == 1
        for published in desk.moved():
            assert desk.confirmed_at(published) < desk.acked_at(published)
        assert [t.settles for t in desk.worker.tickets if len(t.settles) > 1] == []
        await desk.worker.intake.give_back()


async def test_moving_takes_no_more_than_a_quarter_of_the_work() -> None:
    """One at two thirds of a delivery's cost for every second that ended, beside a least pace."""
    desk = Flood()
    async with desk.running():
        desk.flood(3000)
        await desk.worker.clock.advance(12)
        ended, moved = desk.worker.intake.ended, len(desk.moved())

        await desk.worker.clock.advance(5)

        more = desk.worker.intake.ended - ended
        assert 0 < len(desk.moved()) - moved <= more / 2 + 4 * 5 / 0.05
        await desk.worker.intake.give_back()


@pytest.mark.parametrize(
    ("source", "queue"), [(Source.SPILL, SPILL), (Source.STRAY, NAMES.stray), (Source.DUE, DUE)]
)
async def test_a_moved_event_is_delivered_as_it_was_published(source: Source, queue: str) -> None:
    """The same id and bytes come out of the spill queue, and count for the same tenant.

    faults 16, 64: so they do where that queue was gone: out of stray, or of a due queue after that.
    """
    desk = Flood()
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(11)
        await desk.worker.intake.give_back()
        raw = desk.moved()[0].raw(queue=queue)
        original = unwrap_raw(raw)
        sent = desk.worker.sent("shop")
        desk.worker.offer(raw, source)
        await desk.worker.clock.advance(2.5)

    assert original.routing_key == "order.created"
    assert original.exchange == NAMES.events
    assert desk.worker.sent("shop") > sent
    assert dict(desk.worker.sender.sent[-1].headers)["webhook-id"] == original.message_id
    assert raw.headers["leveret-tenant"] == "acme"
    assert desk.worker.parked() == []


async def test_the_binding_goes_when_its_spill_queue_is_empty() -> None:
    """And not while messages stand there."""
    desk = Flood()
    async with desk.running():
        desk.flood()
        desk.routes.stands[SPILL] = 1
        await desk.worker.clock.advance(60)
        assert desk.rerouted() == {"acme": SPILL}

        desk.routes.stands[NAMES.lane(0)] = 0
        desk.routes.stands[SPILL] = 0
        await desk.worker.clock.advance(8)

        assert desk.routes.bindings == set()
        assert desk.rerouted() == {}
        assert desk.worker.count("noisy_tenants") == 0


async def test_a_binding_that_a_dead_worker_left_is_found_and_removed() -> None:
    """What comes to a spill queue by a binding shows the binding: it goes like one's own."""
    desk = Flood()
    desk.routes.bindings.add(("acme", SPILL))
    async with desk.running():
        desk.worker.offer(event_message(queue=SPILL), Source.SPILL)
        await desk.worker.clock.advance(1)
        assert desk.rerouted() == {"acme": SPILL}

        await desk.worker.clock.advance(10)

        assert desk.routes.bindings == set()


async def test_forged_words_in_a_spill_queue_are_a_producers() -> None:
    """Fault 18: a wrapper in an event that came by a binding is not looked into."""
    desk = Flood()
    async with desk.running():
        forged = event_message(
            queue=SPILL,
            headers={
                "tenant": "acme",
                "leveret-v": 1,
                "leveret-raw": '{"headers":{}}',
                "leveret-tenant": "b",
            },
            message_id="forged-1",
        )
        desk.worker.offer(forged, Source.SPILL)
        await desk.worker.clock.advance(2)

    assert dict(desk.worker.sender.sent[0].headers)["webhook-id"] == "forged-1"
    assert [p for p in desk.worker.publisher.confirmed if "raw" in str(p.headers)] == []


async def test_without_the_right_to_bind_the_window_is_still_cleared() -> None:
    """Then it spills by publishing, which needs no more rights than a worker has."""
    desk = Flood()
    desk.routes.allowed = False
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(13)

        assert desk.routes.bindings == set()
        assert len(desk.moved()) >= 20
        assert desk.worker.log.events("tenant.spilled")[0]["bound"] is False
        await desk.worker.intake.give_back()


async def test_a_tenant_that_only_empties_its_lane_is_left_alone() -> None:
    """Nobody waits: neither in hand nor in its lane."""
    desk = Flood()
    desk.routes.stands.clear()
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(15)

        assert desk.routes.bindings == set()
        await desk.worker.intake.give_back()


async def test_one_tenant_alone_is_never_rerouted() -> None:
    """Nobody is crowded out."""
    desk = Flood()
    desk.tenants = 1
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(15)

        assert desk.routes.bindings == set()
        await desk.worker.intake.give_back()


async def test_a_lost_connection_is_waited_out() -> None:
    """Fault 59: the rule is applied once there is a connection again."""
    desk = Flood()
    desk.routes.connected = False
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(11)
        desk.routes.connected = True

        await desk.worker.clock.advance(3)

        assert desk.routes.bindings == {("acme", SPILL)}
        await desk.worker.intake.give_back()


async def test_nothing_stays_in_hand_unstarted_for_too_long() -> None:
    """An event goes to a spill queue, a delivery message to the end of its own."""
    desk = Flood(in_hand_s=10.0)
    desk.tenants = 1
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 200.0
        desk.flood(22)
        await desk.worker.clock.advance(1)
        owed = DeliveryMessage(event=event(id="owed-1"), targets=("sub_1",))
        fresh = desk.worker.offer(event_message(message_id="stuck-1"))
        due = desk.worker.offer(delivery_message(owed), Source.DUE)
        await desk.worker.clock.advance(9)
        assert (fresh.settles, due.settles) == ([], [])

        await desk.worker.clock.advance(4)

        assert (fresh.settles, due.settles) == (["ack"], ["ack"])
        moved = [unwrap_raw(published.raw()).message_id for published in desk.moved()]
        assert moved == ["a-20", "a-21", "stuck-1"]  # two of the flood had no slot
        again = desk.worker.publisher.to(NAMES.direct_key(DUE))
        assert [read_delivery(p.raw()).event.id for p in again] == ["owed-1"]
        assert desk.worker.count("moved_messages_total") == 4


async def test_back_pressure_moves_nothing() -> None:
    """Fault 63: a blocked broker gets no more publishes."""
    desk = Flood()
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(9.9)
        desk.worker.publisher.reason = "blocked"

        await desk.worker.clock.advance(90)

        assert desk.moved() == []
        desk.worker.publisher.reason = None
        await desk.worker.intake.give_back()


@pytest.mark.parametrize("tenant", ["x" * 130_000, "a b\n", 7.5])
async def test_what_is_no_tenant_is_never_bound(tenant: object) -> None:
    """Fault 16: a name as long as a frame would close the connection; it is parked, the rule goes on."""
    desk = Flood()
    async with desk.running():
        for step in range(30):
            for number in range(30):
                headers = {"tenant": tenant}
                desk.worker.offer(event_message(headers=headers, message_id=f"{step}-{number}"))
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == set()
        assert desk.rerouted() == {}
        assert len(desk.worker.parked()) == 900


async def test_a_binding_to_another_spill_queue_goes_at_once() -> None:
    """It is of other settings (spill_queues): beside the right one it would copy each event."""
    desk = Flood()
    other = NAMES.spill(spill_index("acme", 4) + 1)
    desk.routes.bindings.add(("acme", other))
    async with desk.running():
        desk.worker.offer(event_message(queue=other), Source.SPILL)
        await desk.worker.clock.advance(1)

        assert desk.routes.bindings == set()
        assert desk.rerouted() == {}


async def test_a_binding_that_another_worker_took_away_is_made_again() -> None:
    """Two workers: to one the tenant seemed quiet; the other still leads it when it floods again."""
    desk = Flood()
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.01
        await flood_for(desk, 12)
        assert desk.routes.bindings == {("acme", SPILL)}
        desk.routes.stands |= {NAMES.lane(0): 0, SPILL: 1}
        await flood_for(desk, 3)
        desk.routes.bindings.clear()
        desk.routes.stands[NAMES.lane(0)] = 1_000

        await flood_for(desk, 3)

        assert desk.routes.bindings == {("acme", SPILL)}
        assert desk.worker.count("tenant_spills_total") == 1
        await desk.worker.intake.give_back()


async def test_what_was_published_into_a_spill_queue_shows_no_binding() -> None:
    """Fault 18: by the default exchange anybody names tenants there: none is taken to be led around."""
    desk = Flood()
    async with desk.running():
        for number in range(200):
            sent = event_message(tenant=f"t{number}", queue=SPILL, exchange="", message_id=f"m-{number}")
            desk.worker.offer(sent, Source.SPILL)
        await desk.worker.clock.advance(1)

        assert desk.rerouted() == {}
        assert {tuple(ticket.settles) for ticket in desk.worker.tickets} == {("ack",)}


async def flood_for(desk: Flood, seconds: int) -> None:
    """Let the flood's lane bring 60 events a second."""
    for step in range(2 * seconds):
        for number in range(30):
            desk.worker.offer(event_message(message_id=f"{seconds}-{step}-{number}"))
        await desk.worker.clock.advance(0.5)


async def test_whoever_is_left_alone_comes_back() -> None:
    """A tenant over a limit of its own, and all others unsubscribe: nobody is in its way any more."""
    desk = Flood(limit_of=limited)
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.01
        await flood_for(desk, 12)
        assert desk.routes.bindings == {("acme", SPILL)}

        desk.tenants = 1
        await desk.worker.clock.advance(8)

        assert desk.routes.bindings == set()


@pytest.mark.parametrize("spill_queues", [4, 0])
async def test_a_whole_window_leaves_the_hand_in_time(spill_queues: int) -> None:
    """However many; without spill queues events take a due queue, wrapped."""
    desk = Flood(in_hand_s=10.0, spill_queues=spill_queues)
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 200.0
        desk.routes.stands.clear()
        desk.flood(1_020)
        await desk.worker.clock.advance(9)
        assert desk.worker.intake.unstarted() == 1_000

        await desk.worker.clock.advance(3)

        assert desk.worker.intake.unstarted() == 0
        key = SPILL_KEY if spill_queues else NAMES.direct_key(DUE)
        moved = desk.worker.publisher.to(key)
        assert len(moved) == 1_000
        assert {unwrap_raw(p.raw()).message_id for p in moved} == {f"a-{n}" for n in range(20, 1_020)}


async def test_a_flood_without_a_tenant_leaves_its_lane() -> None:
    """Fault 71: no binding tells the default tenant's events; what is in hand is moved all the same."""
    desk = Flood()
    desk.worker.sender.latency_s["https://house.example/"] = 1.0
    await desk.worker.subscribe("house", tenant="default", concurrency=100)
    async with desk.running():
        for number in range(400):
            desk.worker.offer(event_message(headers={}, message_id=f"a-{number}"))
        await desk.worker.clock.advance(13)

        assert desk.routes.bindings == set()
        queue = NAMES.spill(spill_index("default", 4))
        assert desk.rerouted() == {"default": queue}
        assert len(desk.worker.publisher.to(NAMES.direct_key(queue))) >= 20
        assert desk.worker.log.events("tenant.spilled")[0]["bound"] is False
        await desk.worker.intake.give_back()


async def test_a_noisy_tenant_is_told_to_administrators() -> None:
    """The event tenant.noisy, once, by the worker that decided it, with the reason."""
    desk = Flood()
    told: list[Note] = []
    desk.worker.observe.notes.add(told.append)
    async with desk.running():
        desk.flood()
        desk.worker.offer(event_message(tenant="other", queue=SPILL), Source.SPILL)  # bound by another worker
        await desk.worker.clock.advance(13)

        assert [(note.type, note.tenant) for note in told] == [(OperatorEventType.TENANT_NOISY, "acme")]
        assert told[0].reason == "its backlog fills its lane"
        assert desk.worker.count("tenant_spills_total") == 1
        await desk.worker.intake.give_back()


async def test_a_lane_that_stays_behind_is_relieved_while_the_worker_is_idle() -> None:
    """Fault 71: where the broker is what is short, a flood holds next to nothing, its lane stays full."""
    desk = Flood()
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.01
        for step in range(24):
            for number in range(30):
                desk.worker.offer(event_message(message_id=f"{step}-{number}"))
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == {("acme", SPILL)}
        assert desk.routes.asked <= 12  # not at each of the 24 looks: the broker has enough to do


async def test_a_lane_is_left_alone_that_several_fill() -> None:
    """Nobody makes up more than a third of it: leading one around would help nobody."""
    desk = Flood()
    async with desk.running():
        for step in range(30):
            for number in range(100):
                desk.worker.offer(event_message(tenant=f"t{number % 4}", message_id=f"{step}-{number}"))
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == set()
        assert desk.routes.asked == 0


def limited(tenant: str) -> TenantLimit:
    """Limit acme alone."""
    return TenantLimit(events_per_s=10, backlog=5_000) if tenant == "acme" else TenantLimit()


async def test_who_is_over_its_rate_is_led_around_and_dropped_nowhere() -> None:
    """Its events wait in the spill queue, it is told of, all are delivered."""
    desk = Flood(limit_of=limited)
    desk.routes.stands.clear()
    told: list[Note] = []
    desk.worker.observe.notes.add(told.append)
    await desk.worker.subscribe("other", tenant="other")
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.0
        for step in range(44):
            for number in range(6):
                desk.worker.offer(event_message(message_id=f"{step}-{number}"))
                desk.worker.offer(event_message(tenant="other", message_id=f"o-{step}-{number}"))
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == {("acme", SPILL)}
        assert [note.reason for note in told] == ["brings more than its 10 events/s"]
        await desk.worker.clock.advance(8)
        assert desk.routes.bindings == set()
    assert desk.worker.sent("shop") == desk.worker.sent("other") == 44 * 6
    assert {tuple(ticket.settles) for ticket in desk.worker.tickets} == {("ack",)}


async def test_who_has_too_large_a_backlog_is_led_around() -> None:
    """Its part of what stands in the lane, by its part of what comes."""
    desk = Flood(limit_of=limited)
    told: list[Note] = []
    desk.worker.observe.notes.add(told.append)
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.0
        desk.routes.stands[NAMES.lane(0)] = 20_000
        desk.routes.stands[SPILL] = 1  # it is not sent back before the end
        for step in range(60):
            for number in range(8):
                tenant = ("acme", "b", "c", "d")[number % 4]
                desk.worker.offer(event_message(tenant=tenant, message_id=f"{step}-{number}"))
            if step == 30:  # a quarter of 20,000 is the limit, and not over it
                assert desk.routes.bindings == set()
                desk.routes.stands[NAMES.lane(0)] = 20_100
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == {("acme", SPILL)}
        assert [note.reason for note in told] == ["has a backlog of more than 5000 events"]


async def test_a_tenant_with_a_lane_of_its_own_is_never_led_around_it() -> None:
    """Two bindings would copy each event; one that shows itself there is removed at once."""
    desk = Flood(dedicated=frozenset({"acme"}))
    desk.routes.bindings.add(("acme", SPILL))
    async with desk.running():
        desk.flood()
        desk.worker.offer(event_message(queue=SPILL, message_id="left"), Source.SPILL)
        await desk.worker.clock.advance(1)
        assert desk.routes.bindings == set()
        await desk.worker.clock.advance(14)

        assert desk.routes.bindings == set()
        assert desk.rerouted() == {}
        assert desk.moved() == []
        await desk.worker.intake.give_back()


async def test_a_tenant_does_not_come_back_while_its_lane_is_behind() -> None:
    """Fault 71: what is moved is taken at once by an idle worker; the lane is not empty for that."""
    desk = Flood()
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.01
        for step in range(60):
            for number in range(30 if step < 24 else 0):
                desk.worker.offer(event_message(message_id=f"{step}-{number}"))
            await desk.worker.clock.advance(0.5)
        assert desk.routes.bindings == {("acme", SPILL)}

        desk.routes.stands[NAMES.lane(0)] = 99
        await desk.worker.clock.advance(7)

        assert desk.routes.bindings == set()
        assert desk.worker.count("tenant_spills_total") == 1


async def test_what_is_moved_still_counts_as_the_lanes() -> None:
    """Who stands in a flood's lane is not taken for the one that fills it."""
    limits = {"acme": TenantLimit(backlog=5_000)}
    desk = Flood(limit_of=lambda tenant: limits.get(tenant, TenantLimit()))
    await desk.worker.subscribe("other", tenant="other", concurrency=100)
    async with desk.running():
        desk.worker.sender.latency_s["https://shop.example/"] = 0.0
        desk.worker.sender.latency_s["https://other.example/"] = 1.0
        desk.routes.stands[NAMES.lane(0)] = 18_000  # a quarter of it, and no more, is acme's
        for step in range(30 * 20):
            for number in range(3):
                desk.worker.offer(event_message(tenant="other", message_id=f"o-{step}-{number}"))
            desk.worker.offer(event_message(message_id=f"{step}"))
            await desk.worker.clock.advance(0.05)
        other = NAMES.spill(spill_index("other", 4))
        moved = desk.worker.publisher.to(NAMES.direct_key(other))
        assert desk.routes.bindings == {("other", other)}
        assert len(moved) > 200
        await desk.worker.intake.give_back()
