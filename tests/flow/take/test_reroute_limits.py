"""A tenant is rerouted if its lane stays behind, or if it is over its rate or its backlog."""

from __future__ import annotations

from consumer.core.fairness.noisy_tenants import TenantLimit, spill_index
from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.ports import Source
from tests.support.flow.flood import SPILL, Flood, limited
from tests.support.worker import NAMES, event_message


async def test_a_noisy_tenant_is_reported_to_administrators() -> None:
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
    """Fault 71: where the broker is the bottleneck, a flood has little in flight, and its lane stays full."""
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
    """No tenant is more than a third of it: rerouting one would help none."""
    desk = Flood()
    async with desk.running():
        for step in range(30):
            for number in range(100):
                desk.worker.offer(event_message(tenant=f"t{number % 4}", message_id=f"{step}-{number}"))
            await desk.worker.clock.advance(0.5)

        assert desk.routes.bindings == set()
        assert desk.routes.asked == 0


async def test_a_tenant_over_its_rate_is_rerouted_and_loses_nothing() -> None:
    """Its events wait in the spill queue, it is reported, all are delivered."""
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


async def test_a_tenant_with_too_large_a_backlog_is_rerouted() -> None:
    """Its part of the lane's backlog is estimated from its part of the new events."""
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
    """Fault 71: an idle worker takes moved messages at once; the lane is not empty because of that."""
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


async def test_moved_messages_still_count_as_the_lanes() -> None:
    """A tenant that waits in a flood's lane is not taken for the one that fills it."""
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
