"""The next job: fair between tenants and queues, bounded, and none under back-pressure."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from itertools import groupby

import pytest

from consumer.core.fairness.queue import MAX_CONSECUTIVE
from consumer.core.message.delivery import DeliveryMessage
from consumer.flow.take.intake import Intake
from consumer.flow.take.job import Job
from consumer.ports import Incoming, Source
from tests.support.fakes import START, FakeTicket, settled
from tests.support.flow.intake import IntakeDesk
from tests.support.worker import NAMES, Worker, delivery_message, event, event_message


@pytest.mark.parametrize("batch", [1, MAX_CONSECUTIVE, 5])
async def test_no_tenant_has_more_than_three_in_a_row(batch: int) -> None:
    """A flood of one tenant does not delay another's events (S1-8, fault 71); the 3 is a setting."""
    desk = IntakeDesk(batch=batch)
    desk.offer(tenant="first")
    for _ in range(50):
        desk.offer(tenant="noisy")
    for _ in range(5):
        desk.offer(tenant="quiet")

    await desk.run_all()

    tenants = desk.tenants()[1:]
    contested = tenants[: len(tenants) - tenants[::-1].index("quiet")]
    runs = [len(list(group)) for _, group in groupby(contested)]
    assert max(runs) <= batch
    assert MAX_CONSECUTIVE == 3
    assert len(contested) <= 5 * (batch + 1)
    assert tenants.count("noisy") == 50


async def test_retries_do_not_stand_behind_fresh_events() -> None:
    """Each kind of queue gets its turn, whatever the others contain (S2-6)."""
    desk = IntakeDesk()
    desk.offer(tenant="first")
    for _ in range(40):
        desk.offer(Source.LANE)
    for source in (Source.DUE, Source.SPILL, Source.SUSPECT):
        desk.offer(source)
        desk.offer(source)

    await desk.run_all()

    places = {s: [n for n, job in enumerate(desk.started) if job.source is s] for s in Source}
    assert places[Source.DUE][-1] <= 10
    assert places[Source.SPILL][-1] <= 10
    assert places[Source.SUSPECT][-1] <= 20


async def test_back_pressure_starts_nothing() -> None:
    """While the broker is slow or blocked nothing new starts; running jobs end (faults 63, 65)."""
    desk = IntakeDesk(concurrency=10)
    desk.offer()
    await settled()
    desk.worker.publisher.reason = "blocked"

    for _ in range(5):
        desk.offer()
    await desk.run_all()

    assert len(desk.started) == 1
    assert desk.intake.unstarted() == 5
    desk.worker.publisher.reason = None
    desk.intake.pump()
    await desk.intake.idle()
    assert len(desk.started) == 6


async def test_a_paused_intake_starts_and_holds_nothing() -> None:
    """The drain's first step (fault 58)."""
    desk = IntakeDesk()
    desk.intake.pause()

    desk.offer()

    assert desk.started == []
    assert not Job(Source.DUE, Incoming(event_message(), FakeTicket()), "acme", desk.intake).hold(1.0)
    desk.intake.resume()
    await settled()
    assert len(desk.started) == 1


async def test_no_more_starts_than_there_are_slots() -> None:
    """Four jobs run with four slots, the others wait in fair order."""
    desk = IntakeDesk(concurrency=4)

    for _ in range(20):
        desk.offer()
    await settled()

    assert len(desk.started) == 4
    assert desk.intake.slots.free == 0
    assert desk.intake.unstarted() == 16
    await desk.run_all()
    assert len(desk.started) == 20
    assert desk.intake.slots.free == 4


async def test_dead_tickets_are_skipped() -> None:
    """A message of a closed channel comes again by itself: nothing is sent for it now (fault 67)."""
    desk = IntakeDesk()
    desk.offer(tenant="runs")
    dead, alive = desk.offer(tenant="dead"), desk.offer(tenant="alive")
    dead.dead = True

    await desk.run_all()

    assert desk.tenants() == ["runs", "alive"]
    assert (dead.settles, alive.settles) == ([], [])


async def test_forgetting_the_dead_keeps_the_living_in_order() -> None:
    """After a lost channel only its messages leave the hand, held ones too, with their timers."""
    desk = IntakeDesk()
    desk.offer(tenant="runs")
    tickets = [desk.offer(tenant=f"t{n}") for n in range(6)]
    held = FakeTicket()
    assert Job(Source.DUE, Incoming(event_message(), held), "h", desk.intake).hold(5.0)
    for ticket in (*tickets[::2], held):
        ticket.dead = True

    desk.intake.forget_dead()

    assert desk.intake.unstarted() == 3
    await desk.worker.clock.advance(10)
    await desk.run_all()
    assert desk.tenants() == ["runs", "t1", "t3", "t5"]


async def test_unstarted_messages_are_given_back_once() -> None:
    """Queued and held messages are given back; running ones are not; a held one does not come back later."""
    desk = IntakeDesk()
    running = desk.offer()
    waiting = [desk.offer(tenant=f"t{n}") for n in range(3)]
    held = FakeTicket()
    assert Job(Source.DUE, Incoming(event_message(), held), "h", desk.intake).hold(1.0)
    await settled()

    assert await desk.intake.give_back() == 4
    await desk.worker.clock.advance(5)

    assert [ticket.settles for ticket in (*waiting, held)] == [["requeue"]] * 4
    assert running.settles == []
    assert desk.intake.unstarted() == 0
    await desk.run_all()
    assert len(desk.started) == 1


async def test_suspects_are_not_given_back_unstarted() -> None:
    """Fault 70: a return is evidence of a death: under long pressure it stays in hand for later."""
    desk = IntakeDesk()
    desk.worker.publisher.reason = "blocked"
    suspect, other = desk.offer(Source.SUSPECT), desk.offer()

    for _ in range(3):
        await desk.intake.give_back()
    desk.worker.publisher.reason = None
    await desk.run_all()
    desk.intake.pump()
    await desk.intake.idle()

    assert (suspect.settles, other.settles) == ([], ["requeue"])
    assert [job.source for job in desk.started] == [Source.SUSPECT]


@pytest.mark.parametrize("held", [False, True])
async def test_a_stop_brings_suspects_to_their_end(held: bool) -> None:
    """Faults 58, 70: at a clean stop it is settled, held or waiting; messages beside it are given back."""
    worker = Worker(concurrency=1)
    shop = await worker.subscribe("shop")
    owed = DeliveryMessage(
        event=event(), targets=(shop.id,), not_before=START + 0.8 * held, wait_s=0.8 * held
    )
    worker.sender.latency_s[shop.url] = 0.5
    first = worker.offer(event_message(message_id="first"))
    if held:
        await worker.intake.idle()
    suspect = worker.offer(delivery_message(owed, queue=NAMES.suspect), Source.SUSPECT)
    behind = worker.offer(event_message(message_id="behind")) if not held else None
    await settled()
    assert worker.intake.unstarted() == 2 - held

    worker.intake.pause()
    await worker.intake.give_back()
    worker.intake.finish_suspects()
    await worker.intake.idle()

    assert (first.settles, suspect.settles) == (["ack"], ["ack"])
    assert behind is None or behind.settles == ["requeue"]
    assert worker.sent("shop") + len(worker.waiting()) == 2
    assert worker.intake.held() == {}
    assert worker.bugs() == []


async def test_a_stop_under_pressure_starts_no_suspect() -> None:
    """Fault 63: no attempt begins whose failure could not be stored."""
    desk = IntakeDesk()
    desk.worker.publisher.reason = "blocked"
    suspect = desk.offer(Source.SUSPECT)
    desk.intake.pause()

    desk.intake.finish_suspects()
    await desk.run_all()

    assert (desk.started, suspect.settles) == ([], [])


async def test_a_held_job_comes_at_its_time() -> None:
    """Not before, and with the others of its kind."""
    desk = IntakeDesk()
    job = Job(Source.DUE, Incoming(event_message(), FakeTicket()), "acme", desk.intake)

    assert job.hold(0.7)
    await desk.worker.clock.advance(0.69)
    early = list(desk.started)
    await desk.worker.clock.advance(0.02)

    assert early == []
    assert desk.started == [job]


async def test_the_gauge_shows_messages_in_hand_by_share() -> None:
    """Closed set of labels."""
    desk = IntakeDesk()
    desk.worker.publisher.reason = "blocked"
    desk.offer()
    desk.offer(Source.DUE)
    desk.offer(Source.SPILL)

    assert desk.intake.by_source() == {
        "inbox/lane": 1,
        "due/stray": 1,
        "replay": 0,
        "spill": 1,
        "suspect": 0,
        "held": 0,
    }


async def test_a_job_that_breaks_takes_nothing_with_it() -> None:
    """An error of a job is reported; its place is free again."""
    desk = IntakeDesk()

    async def broken(_job: Job) -> None:
        raise RuntimeError("a bug")

    intake = Intake(desk.worker.context, broken)
    for _ in range(3):
        intake.offer(Source.LANE, Incoming(event_message(), FakeTicket()))
        await intake.idle()
        await settled()

    assert len(desk.worker.bugs()) == 3
    assert intake.running() == 0
    assert intake.slots.free == 1


NO_IDS: list[object] = [{}, [1], 1.5, True, "a b", "x" * 130_000, "a\ud800", "ünï", b"\xff"]


async def test_a_message_is_scheduled_by_the_tenant_that_it_is_read_as() -> None:
    """Fault 16: a number or bytes name a tenant as text does; an event without a name has no own turn."""
    desk = IntakeDesk()
    for tenant in ("7", 7, b"7", None, "", "default", *NO_IDS):
        message = event_message(headers={} if tenant is None else {"tenant": tenant})
        desk.intake.offer(Source.LANE, Incoming(message, FakeTicket()))

    await desk.run_all()

    found = Counter(desk.tenants())
    assert found == {"7": 3, "default": 3, "": len(NO_IDS)}
    assert desk.intake.lanes_seen.lanes == {"7": NAMES.lane(0), "default": NAMES.lane(0)}


async def test_the_lane_of_a_tenant_is_the_one_by_which_it_came_last() -> None:
    """Lanes come and go: the backlog of the former one is not the new one's."""
    desk = IntakeDesk()
    for lane in (12, 3, 3):
        message = event_message(queue=NAMES.lane(lane))
        desk.intake.offer(Source.LANE, Incoming(message, FakeTicket()))

    assert desk.intake.lanes_seen.lane_of("acme") == NAMES.lane(3)
    await desk.run_all()


async def test_a_message_is_freed_as_soon_as_it_is_settled(worker: Worker) -> None:
    """Its job is in no cycle of references, which would keep the body until a rare run of the collector."""
    await worker.subscribe("shop")
    ticket = FakeTicket()
    gone = weakref.ref(ticket)
    gc.disable()
    try:
        worker.intake.offer(Source.LANE, Incoming(event_message(), ticket))
        del ticket
        await worker.intake.idle()
        await settled()
        assert worker.sent("shop") == 1
        assert gone() is None
    finally:
        gc.enable()
