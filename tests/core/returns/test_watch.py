"""What does not come back is found, whatever comes back late, twice or through other workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.returns.watch import (
    EVERY_S,
    LATE_S,
    MISSING_S,
    OPEN_MAX,
    OVERDUE_S,
    Late,
    Overdue,
    Path,
    ReturnWatch,
)
from tests.support.flow.returning_broker import TICK_S, ReturningBroker

DUE = "leveret.due.00"
OTHER = "leveret.due.01"


@pytest.mark.parametrize("rung_s", [0.25, 2.0, 30.0, 240.0, 3600.0])
def test_a_rung_that_stops_is_seen_in_time(rung_s: float) -> None:
    """`missing_seen_s`: at most TTL + 90 s after the stop, under steady traffic."""
    broker, path = ReturningBroker(), Path(rung_s, DUE)

    def traffic() -> None:
        broker.put(path)

    broker.run(rung_s * 2 + 100, traffic)
    broker.stuck = lambda _: True
    seen_s = None
    for passed_s in range(int(rung_s + 90)):
        if broker.run(TICK_S, traffic).avoided == {rung_s}:
            seen_s = passed_s + TICK_S
            break

    assert seen_s is not None
    assert broker.watch.overdue().rungs[rung_s] >= 1


def test_a_rung_that_stops_is_late_within_a_minute_and_no_other_queue() -> None:
    """The early sign comes well before the fault, under steady traffic, and names the rung alone."""
    broker, path, well = ReturningBroker(), Path(2.0, DUE), Path(3.0, DUE)

    def traffic() -> None:
        broker.put(path)
        broker.put(well)

    broker.run(100, traffic)
    assert broker.watch.late() == Late()
    broker.stuck = lambda each: each == path
    broker.run(45, traffic)

    assert broker.watch.late().rungs.keys() == {2.0}
    assert LATE_S < broker.watch.late().rungs[2.0] <= 45
    assert broker.watch.late().queues == {}
    assert broker.watch.overdue() == Overdue()
    broker.stuck = lambda _: False
    broker.run(3, traffic)
    assert broker.watch.late() == Late()


def test_a_due_queue_that_nobody_consumes_is_late_itself() -> None:
    """Its rungs are not blamed."""
    broker = ReturningBroker()
    broker.put(Path(2.0, DUE))
    broker.slow = frozenset({DUE})
    broker.run(55)

    assert broker.watch.late().queues.keys() == {DUE}
    assert broker.watch.late().rungs == {}


@pytest.mark.parametrize("messages", [1, 2, 5])
def test_the_last_messages_of_a_burst_are_watched_too(messages: int) -> None:
    """Messages after the newest check get one behind them, even if no further message follows."""
    broker, path = ReturningBroker(), Path(60.0, DUE)
    for _ in range(messages):
        broker.put(path)
        broker.run(10)
    broker.run(40)
    broker.stuck = lambda _: True

    assert broker.until(lambda o: o.avoided == {60.0}, 60 + 90)


def test_one_due_queue_is_enough_to_blame_a_rung() -> None:
    """Fault 95: the broker's process hangs on one due queue; what goes to the others still comes."""
    broker = ReturningBroker()
    broker.stuck = lambda path: path == Path(2.0, DUE)

    def traffic() -> None:
        for queue in (DUE, OTHER):
            for rung_s in (1.0, 2.0, 3.0):
                broker.put(Path(rung_s, queue))

    found = broker.run(92, traffic)

    assert found.avoided == {2.0}
    assert found.rungs.keys() == {2.0}
    assert not found.queues


def test_a_lone_delivery_costs_no_further_message() -> None:
    """The delivery itself carries the check, so a healthy rung gets nothing else."""
    broker = ReturningBroker()

    def traffic() -> None:
        broker.put(Path(2.0, DUE))
        broker.run(EVERY_S)

    for _ in range(20):
        traffic()

    assert broker.checks == 0
    assert broker.run(100) == Overdue()


def test_it_recovers_when_the_messages_come() -> None:
    """A rung is used again as soon as the missing checks are back."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    broker.put(path)
    broker.stuck = lambda _: True
    broker.until(lambda o: o.avoided == {2.0}, 92)
    broker.run(1_000)
    broker.stuck = lambda _: False

    assert broker.run(2) == Overdue()


def test_a_purged_rung_is_used_again_soon_and_reported_for_a_while() -> None:
    """Lost messages never come back; later checks show that the rung works."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    broker.put(path)
    broker.purge()
    broker.until(lambda o: 2.0 in o.rungs, 92)

    assert broker.until(lambda o: not o.avoided, 60) <= 30
    assert broker.watch.overdue().rungs == {2.0: 1}
    assert broker.run(MISSING_S) == Overdue()


def test_a_due_queue_that_nobody_consumes_is_not_the_rungs_fault() -> None:
    """The due queue is reported instead, and no rung is avoided."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    broker.put(path)
    broker.slow = frozenset({DUE})

    broker.until(lambda o: DUE in o.queues, 92)
    found = broker.watch.overdue()
    broker.slow = frozenset()

    assert (found.rungs, found.avoided) == ({}, frozenset())
    assert broker.run(3) == Overdue()


def test_a_due_queue_that_is_merely_long_is_no_fault() -> None:
    """Messages wait behind others for up to a minute under load."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    for _ in range(10):
        broker.put(path)
        broker.slow = frozenset({DUE})
        assert broker.run(50) == Overdue()
        broker.slow = frozenset()
        assert broker.run(10) == Overdue()


def test_time_in_which_nothing_is_seen_does_not_count() -> None:
    """While the broker is away nothing can come back: the caller lets no time pass."""
    watch = ReturnWatch()
    watch.start()
    number = watch.put(Path(2.0, DUE))
    assert number is not None
    watch.confirmed(number)

    assert watch.overdue() == Overdue()


def test_an_unconfirmed_message_proves_nothing() -> None:
    """A publish that was not confirmed may not have arrived; one without an end is not judged here."""
    watch, path = ReturnWatch(), Path(2.0, DUE)
    watch.start()
    failed = watch.put(path)
    assert failed is not None
    watch.failed(failed)
    watch.advance(500)
    hanging = watch.put(path)
    watch.advance(500)

    assert hanging is not None
    assert watch.put(path) is None  # no second one while the first has no confirm
    assert watch.overdue() == Overdue()


def test_it_is_off_without_reports() -> None:
    """A worker that hears no other worker marks nothing."""
    watch = ReturnWatch()

    assert watch.put(Path(2.0, DUE)) is None
    watch.advance(1_000)
    assert (watch.wanted(), watch.overdue()) == ((), Overdue())


@pytest.mark.parametrize(("seen_s", "unseen_s"), [(0, 12), (3, 9), (8, 0), (10, 600), (60, 0)])
def test_a_report_that_may_be_lost_is_asked_for_again(seen_s: int, unseen_s: float) -> None:
    """The control queue was lost: a check that may have come back is replaced, not judged.

    While the broker was away the TTL went on, but not the worker's time: a check may be back before that.
    """
    broker, path = ReturningBroker(), Path(12.0, DUE)
    broker.put(path)
    broker.purge()  # as a report that was lost
    assert broker.run(seen_s) == Overdue()
    broker.watch.advance(0.0, unseen_s)
    broker.watch.start()

    before = broker.checks
    assert [broker.run(1) for _ in range(1_000)] == [Overdue()] * 1_000
    assert broker.checks - before == 1
    assert broker.put(path) is not None
    assert [broker.run(1) for _ in range(1_000)] == [Overdue()] * 1_000


def test_a_check_that_cannot_be_back_yet_is_kept() -> None:
    """A rung of an hour that keeps its messages is found, although the control queue was lost ten times."""
    broker, path = ReturningBroker(), Path(3600.0, DUE)
    broker.put(path)
    broker.stuck = lambda _: True
    for _ in range(10):
        broker.run(300)
        broker.watch.advance(0.0, 20.0)
        broker.watch.start()

    broker.until(lambda o: o.rungs.keys() == {3600.0}, 700)


def test_a_message_that_is_kept_stays_known() -> None:
    """Later messages pass it, and the control queue is lost before its time: it is missing all the same."""
    broker, path = ReturningBroker(), Path(240.0, DUE)
    broker.put(path)
    broker.purge()  # as a message that the rung keeps for good
    broker.run(100)
    broker.watch.start()
    for _ in range(4):
        broker.put(path)
        broker.run(60)

    assert broker.run(120).rungs == {240.0: 1}


def test_an_unconfirmed_check_is_not_replaced() -> None:
    """Its publish decides: it may fail, and then nothing is owed for it."""
    watch, path = ReturnWatch(), Path(2.0, DUE)
    watch.start()
    number = watch.put(path)
    watch.start()
    watch.advance(1_000)
    assert watch.wanted() == []
    assert number is not None
    watch.failed(number)

    assert (watch.wanted(), watch.overdue()) == ([], Overdue())


def test_a_fault_outlasts_lost_reports() -> None:
    """A rung that was found to be stuck stays avoided when the control queue is lost."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    broker.put(path)
    broker.stuck = lambda _: True
    broker.until(lambda o: o.avoided == {2.0}, 92)
    broker.watch.start()

    assert broker.run(10).avoided == {2.0}


def test_few_checks_are_away_at_once() -> None:
    """A rung of a day that is stuck for days costs no memory and few messages; no message is forgotten."""
    broker, path = ReturningBroker(), Path(60.0, DUE)
    broker.stuck = lambda _: True
    for _ in range(200):
        broker.put(path)
        broker.run(30)

    assert broker.checks <= 200 * 30 / EVERY_S + OPEN_MAX
    assert broker.watch.overdue().rungs[60.0] >= 190


@given(
    st.lists(
        st.tuples(
            st.sampled_from((0.25, 2.0, 20.0)),
            st.sampled_from((DUE, OTHER)),
            st.floats(0, 40),
        ),
        max_size=60,
    )
)
def test_a_healthy_broker_is_never_blamed(puts: list[tuple[float, str, float]]) -> None:
    """Whatever is published and when: nothing is overdue, and nothing remains to be published."""
    broker = ReturningBroker()
    for rung_s, queue, pause_s in puts:
        broker.put(Path(rung_s, queue))
        assert broker.run(pause_s) == Overdue()

    assert broker.run(60 + OVERDUE_S) == Overdue()
    assert (broker.watch.wanted(), broker.watch.late()) == ([], Late())


@given(
    st.lists(
        st.tuples(st.floats(1, 60), st.booleans(), st.booleans(), st.none() | st.floats(0, 99)),
        min_size=1,
        max_size=20,
    )
)
def test_no_history_hides_a_stop(history: list[tuple[float, bool, bool, float | None]]) -> None:
    """Whatever stopped, went on or was lost before: a rung that stops for good is found, and its end too."""
    broker, path = ReturningBroker(), Path(2.0, DUE)
    for seconds, stuck, slow, lost_s in history:
        if lost_s is not None:
            broker.watch.advance(0.0, lost_s)
            broker.watch.start()
        broker.stuck = (lambda _: True) if stuck else (lambda _: False)
        broker.slow = frozenset({DUE}) if slow else frozenset()
        broker.put(path)
        broker.run(seconds)
    broker.slow, broker.stuck = frozenset(), lambda _: True
    broker.run(3)
    broker.put(path)

    broker.until(lambda o: o.avoided == {2.0}, 2 + 90)
    broker.stuck = lambda _: False
    assert broker.run(5) == Overdue()
