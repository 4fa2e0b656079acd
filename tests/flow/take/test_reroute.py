"""A noisy tenant's way around the lanes: bound, moved, emptied, unbound; nothing stays in hand."""

from __future__ import annotations

import pytest

from consumer.core.fairness.noisy_tenants import spill_index
from consumer.core.message.delivery import DeliveryMessage, read_delivery, unwrap_raw
from consumer.ports import Source
from tests.support.flow.flood import SPILL, SPILL_KEY, Flood, flood_for, limited
from tests.support.worker import DUE, NAMES, delivery_message, event, event_message


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
    """And not while it has messages."""
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
    """An event that comes to a spill queue by a binding reveals the binding, which is then its own."""
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
    """No other tenant waits: neither in hand nor in its lane."""
    desk = Flood()
    desk.routes.stands.clear()
    async with desk.running():
        desk.flood()
        await desk.worker.clock.advance(15)

        assert desk.routes.bindings == set()
        await desk.worker.intake.give_back()


async def test_one_tenant_alone_is_never_rerouted() -> None:
    """No other tenant is hindered."""
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
async def test_an_invalid_tenant_is_never_bound(tenant: object) -> None:
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


async def test_a_message_published_into_a_spill_queue_shows_no_binding() -> None:
    """Fault 18: by the default exchange anybody names tenants there: none is taken to be led around."""
    desk = Flood()
    async with desk.running():
        for number in range(200):
            sent = event_message(tenant=f"t{number}", queue=SPILL, exchange="", message_id=f"m-{number}")
            desk.worker.offer(sent, Source.SPILL)
        await desk.worker.clock.advance(1)

        assert desk.rerouted() == {}
        assert {tuple(ticket.settles) for ticket in desk.worker.tickets} == {("ack",)}


async def test_a_single_remaining_worker_comes_back() -> None:
    """A tenant over a limit of its own, and all others unsubscribe: it hinders no tenant any more."""
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
    """Fault 71: no binding matches the default tenant's events; its unstarted ones are moved all the same."""
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
