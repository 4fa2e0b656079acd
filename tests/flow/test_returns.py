"""Item 1 of fault 95: a rung that gives nothing back is seen, avoided, and used again when it recovers."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from consumer.core.errors import BrokerUnavailable
from consumer.core.returns.check_headers import unnumbered_check_headers
from consumer.flow.base.context import Avoided
from consumer.flow.returns import TICK_MAX_S
from consumer.ports import Incoming, Source
from tests.support.fakes import FakeTicket
from tests.support.flow.watching_workers import RUNG, Watchers, watchers
from tests.support.worker import DUE, NAMES, Worker, delivery_message, event_message
from tests.support.worker import due as owed


async def traffic(crew: Watchers, seconds: int, wait_s: float = 2.0) -> None:
    """Let every worker put a delivery each five seconds."""
    for _ in range(0, seconds, 5):
        for each in crew.workers:
            await each.put(wait_s)
        await crew.pass_time(5)


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_stuck_rung_is_seen_by_every_worker_that_uses_it(count: int) -> None:
    """Series, log and note within TTL + 90 s; the other rungs stay as they are; new waits avoid it."""
    async with watchers(count) as crew:
        await traffic(crew, 100)
        crew.stuck.add("2000")
        await traffic(crew, 90)

        for each in crew.workers:
            assert each.overdue(RUNG) >= 1
            assert each.overdue(NAMES.rung(1.5)) == 0
            [line] = each.worker.log.events("queue.overdue")
            assert line["queue"] == RUNG
            assert each.returns.notes() != []
            assert RUNG not in each.returns.notes()[0]
            before = len(each.worker.publisher.to("2000."))
            await each.put(2.0)
            assert len(each.worker.publisher.to("2000.")) == before
            assert each.worker.publisher.confirmed[-1].key.startswith("1500.")


async def test_a_stuck_rung_has_a_series_before_it_is_overdue() -> None:
    """The series shows how late it is, and ends when the rung gives back."""
    async with watchers(1) as crew:
        [each] = crew.workers
        await traffic(crew, 100)
        assert each.late() == {}
        crew.stuck.add("2000")
        await traffic(crew, 45)
        assert each.late().keys() == {RUNG}
        assert each.overdue(RUNG) == 0

        crew.free("2000")
        await crew.pass_time(5)
        assert each.late() == {}


async def test_it_is_used_again_when_it_gives_back() -> None:
    """All workers return to it, and report this once."""
    async with watchers(2) as crew:
        crew.stuck.add("2000")
        await traffic(crew, 95)
        crew.free("2000")
        await crew.pass_time(5)

        for each in crew.workers:
            assert each.overdue(RUNG) == 0
            assert each.worker.context.avoided == Avoided()
            assert each.worker.log.events("queue.returned") == [{"queue": RUNG}]
            assert each.returns.notes() == []


@pytest.mark.parametrize("count", [1, 3])
async def test_healthy_rungs_cause_neither_alarm_nor_message(count: int) -> None:
    """Hours of traffic: no queue is blamed, and checks travel only on deliveries."""
    async with watchers(count) as crew:
        for _ in range(100):
            await traffic(crew, 20)
            await crew.pass_time(60)
        await crew.pass_time(300)

        for each in crew.workers:
            assert each.worker.log.events("queue.overdue") == []
            assert each.worker.bugs() == []
            alone = [p for p in each.worker.publisher.confirmed if not p.publication.body]
            control = [p for p in alone if p.publication.exchange == NAMES.control]
            assert len(alone) - len(control) <= 200  # one after the end of each burst


async def test_a_purge_by_an_operator_blocks_the_rung_only_for_a_moment() -> None:
    """The missing deliveries are reported; the rung is used again once a later check came back."""
    async with watchers(1) as crew:
        [each] = crew.workers
        crew.stuck.add("2000")
        await each.put(2.0)
        await crew.pass_time(3)
        crew.purge("2000")
        crew.stuck.clear()
        await crew.pass_time(100)

        assert each.overdue(RUNG) == 1
        assert each.worker.context.avoided.rungs_s == frozenset()
        await crew.pass_time(1_000)
        assert each.overdue(RUNG) == 0


async def test_lost_reports_of_one_worker_are_made_good() -> None:
    """While reports between two workers are lost, a later check that comes back itself suffices."""
    async with watchers(2) as crew:
        crew.lost = lambda _from, _to: True
        await traffic(crew, 60)
        crew.lost = lambda _from, _to: False
        for each in crew.workers:
            each.returns.listening()  # its control queue is declared anew
        await traffic(crew, 120)

        for each in crew.workers:
            assert each.worker.context.avoided == Avoided()


async def test_reports_wait_for_a_broker() -> None:
    """A report that cannot be published now is published later."""
    async with watchers(2) as crew:
        first, second = crew.workers
        for each in crew.workers:
            await each.put(2.0)
            await each.put(2.0)
        for each in crew.workers:
            each.worker.publisher.connected = False
        await crew.pass_time(10)
        for each in crew.workers:
            each.worker.publisher.connected = True
        await crew.pass_time(200)

        assert first.worker.log.events("queue.overdue") == []
        assert second.worker.log.events("queue.overdue") == []


async def test_a_hanging_publisher_does_not_stop_the_watch() -> None:
    """A report without a confirm is given up after a while and repeated."""
    async with watchers(2) as crew:
        for each in crew.workers:
            await each.put(2.0)
            await each.put(2.0)
        for each in crew.workers:
            each.worker.publisher.hang()
        await crew.pass_time(10)
        for each in crew.workers:
            each.worker.publisher.go_on()
        await crew.pass_time(200)

        assert [each.overdue(RUNG) for each in crew.workers] == [0, 0]


async def test_an_outage_of_the_broker_is_no_fault_of_a_rung() -> None:
    """Time in which this worker sees nothing does not count, nor does the time of a stopped process."""
    async with watchers(1) as crew:
        [each] = crew.workers
        crew.stuck.add("2000")
        await each.put(2.0)
        each.sees = False
        await crew.pass_time(3_600)
        each.sees = True
        each.worker.clock.passed_s += 3_600
        await crew.pass_time(TICK_MAX_S + 40)

        assert each.worker.log.events("queue.overdue") == []
        crew.free("2000")
        await crew.pass_time(100)
        assert each.worker.log.events("queue.overdue") == []


async def test_a_new_worker_checks_the_rungs_that_an_earlier_one_used() -> None:
    """A restart loses the counts: a rung with messages is checked, so that its stop is seen soon."""
    crew = Watchers(1)
    [each] = crew.workers
    each.routes.stands = {RUNG: 94}
    each.routes.connected = False
    crew.stuck.add("2000")
    await crew.begin()
    await crew.pass_time(10)
    each.routes.connected = True
    await crew.pass_time(92)

    assert each.overdue(RUNG) == 1
    assert each.worker.publisher.confirmed[0].key == NAMES.wait_key(2.0, DUE)
    await crew.end()


async def test_a_check_is_settled_and_a_delivery_goes_on() -> None:
    """A message of only a check is acked here; the router gets every delivery, marked or not."""
    async with watchers(1) as crew:
        [each] = crew.workers
        await each.put(2.0)  # marked
        await each.put(2.0)  # gets a check behind it
        await crew.pass_time(60)

        assert {*each.work} == {"w0.1", None}
        assert [ticket.settles for ticket in each.settles] == [[], [], ["ack"]]


async def test_a_check_without_a_number_is_only_acked() -> None:
    """Fault 98: its confirm was the answer, so no worker reports it."""
    async with watchers(2) as crew:
        asked = FakeTicket()
        message = event_message(headers=unnumbered_check_headers())

        assert crew.workers[1].returns.offer(Source.DUE, Incoming(message, asked))
        await crew.pass_time(2)

        assert asked.settles == ["ack"]
        assert not any(each.worker.publisher.to("") for each in crew.workers)


async def test_marks_of_others_are_not_believed_on_lanes(worker: Worker) -> None:
    """A producer may write any header; only due and stray queues are read."""
    async with watchers(1) as crew:
        [each] = crew.workers
        forged = event_message(headers={"leveret-check": "w0.1", "leveret-v": "check"})

        for source in Source:
            taken = each.returns.offer(source, Incoming(forged, FakeTicket()))
            assert taken == (source in (Source.DUE, Source.STRAY))


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'{"kind":"returned","checks":3}', b'{"kind":"returned",', b"\xff"]
)
async def test_forged_reports_change_nothing(body: bytes) -> None:
    """Any program may publish to the control exchange."""
    async with watchers(1) as crew:
        [each] = crew.workers
        each.returns.heard(body)
        checks = ["w0", "w0.x", "w0.1.2", ".1", "", "w0.²", 7, None, ["w0.1"], "w1.1"]
        each.returns.heard(orjson.dumps({"kind": "returned", "checks": checks}))

        await crew.pass_time(5)

        assert each.worker.bugs() == []


async def test_an_old_check_is_removed_from_a_message_that_goes_on_unread(worker: Worker) -> None:
    """A message of a newer version goes back to a rung with its headers, without its former check."""
    async with watchers(1) as crew:
        [each] = crew.workers
        await each.put(2.0)
        ours = worker.outbox.waiting(owed("sub_1"), worker.clock.now())
        ours.routing_key = NAMES.wait_key(2.0, DUE)
        ours.headers = {**ours.headers, "leveret-check": "w9.9"}

        await each.checked.publish(ours)

        assert "leveret-check" not in each.worker.publisher.confirmed[-1].headers


async def test_a_failed_publish_is_not_missed() -> None:
    """The caller gets the error, and nothing is expected back."""
    async with watchers(1) as crew:
        [each] = crew.workers
        each.worker.publisher.faults = [BrokerUnavailable("lost")]
        with pytest.raises(BrokerUnavailable):
            await each.put(2.0)
        await crew.pass_time(300)

        assert each.worker.log.events("queue.overdue") == []


async def test_a_due_queue_that_is_not_consumed_is_avoided() -> None:
    """New waits lead to another due queue; with only one there is no choice."""
    avoided = Avoided(due_queues=frozenset({NAMES.due_queue(1)}))

    assert avoided.due_queue(5, NAMES, 4) == NAMES.due_queue(2)
    assert avoided.due_queue(1, NAMES, 2) == NAMES.due_queue(0)
    assert Avoided(due_queues=frozenset({DUE})).due_queue(7, NAMES, 1) == DUE
    both = avoided | Avoided(frozenset({2.0}), frozenset({NAMES.due_queue(2)}))
    assert both.due_queue(5, NAMES, 4) == NAMES.due_queue(3)
    assert both.rungs_s == {2.0}
    assert avoided | Avoided() == avoided


async def test_an_unmarked_delivery_costs_one_look(worker: Worker) -> None:
    """Messages of due queues without a check are nobody's report."""
    async with watchers(1) as crew:
        [each] = crew.workers
        message = delivery_message(owed("sub_1"))

        assert not each.returns.offer(Source.DUE, Incoming(message, FakeTicket()))


async def test_a_call_that_the_amqp_library_cancels_ends_nothing() -> None:
    """The library cancels calls on a connection that closes; the routine goes on, and ends when asked to."""
    crew = Watchers(2)
    for each in crew.workers:
        each.routes.stands = {RUNG: 1}
        each.routes.faults = [asyncio.CancelledError()]
    await crew.begin()
    await crew.pass_time(1.5)
    for each in crew.workers:
        await each.put(2.0)
        await each.put(2.0)
        # the next publishes are a check, and a report to the other worker
        each.worker.publisher.faults = [asyncio.CancelledError()] * 3
    await crew.pass_time(200)

    assert [each.routes.asked for each in crew.workers] == [2, 2]
    assert [each.overdue(RUNG) for each in crew.workers] == [0, 0]
    assert [each.worker.bugs() for each in crew.workers] == [[], []]
    crew.stuck.add("2000")
    await traffic(crew, 95)
    assert [each.overdue(RUNG) > 0 for each in crew.workers] == [True, True]
    assert await crew.end() == [True, True]
