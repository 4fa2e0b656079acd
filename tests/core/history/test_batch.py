"""A batch of the history: rows are joined and parted again, and none is lost."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.history.activity import Activity
from consumer.core.history.batch import HistoryBatch, received_row
from consumer.core.history.records import HistoryRow, chosen_wait_s, parted
from consumer.core.model import Attempt, Event, OutcomeKind
from tests.support.worker import event

TAKEN = replace(event(id="ord-1"), arrived_at=1.0)
ATTEMPT = Attempt(1, 1.5, OutcomeKind.OK, 200, 0.0125)
FAILED = HistoryRow(1.5, "attempt", "ord-1", "acme", "order.created", "sub_1", number=1, reason="retry")
Step = Callable[[HistoryBatch], HistoryRow]  #: notes a step, and returns the row that is to be read


def arrives(of: Event = TAKEN, matched: int = 1) -> Step:
    """An event is taken."""

    def step(batch: HistoryBatch) -> HistoryRow:
        batch.add_arrival(of, matched)
        return received_row(of, matched)

    return step


def is_delivered(of: Event = TAKEN, at: float = 1.5) -> Step:
    """A first attempt delivers."""

    def step(batch: HistoryBatch) -> HistoryRow:
        batch.add_delivery(of, "sub_1", ATTEMPT._replace(at=at), b"ok", "text/plain")
        return delivered(of, at)

    return step


def delivered(of: Event, at: float, wait_ms: float | None = None) -> HistoryRow:
    """The row of a first attempt that delivered."""
    ids = of.id, of.tenant, of.type
    return HistoryRow(
        *(at, "attempt", *ids, "sub_1", "", 1, "ok", 200, 12.5, wait_ms, "delivered"),
        answer=b"ok",
        answer_type="text/plain",
    )


def happens(row: HistoryRow) -> Step:
    """Another step."""

    def step(batch: HistoryBatch) -> HistoryRow:
        batch.add(row)
        return row

    return step


def batch_of(*steps: Step) -> HistoryBatch:
    """A batch of these steps."""
    batch = HistoryBatch()
    for step in steps:
        step(batch)
    return batch


times = st.integers(0, 8_000).map(lambda eighths: eighths / 8)  #: whose differences are exact
events = st.builds(
    lambda at, name, tenant, kind: replace(event(id=name, tenant=tenant, type=kind), arrived_at=at),
    times,
    st.sampled_from(("ord-1", "ord-2")),
    st.sampled_from(("acme", "shop")),
    st.sampled_from(("order.created", "order.paid")),
)
steps_taken = st.lists(
    st.one_of(
        st.builds(arrives, events, st.integers(1, 2)),
        st.builds(is_delivered, events, times),
        st.just(happens(FAILED)),
    )
)


@given(steps_taken)
def test_the_steps_that_are_read_are_those_that_were_noted(steps: Sequence[Step]) -> None:
    """S1-2: whatever is joined comes apart again, with the same times."""
    batch = HistoryBatch()

    noted = [step(batch) for step in steps]

    found = list(parted(batch))
    assert Counter(found) == Counter(noted)
    assert [row for row in found if row.subscription_id] == [row for row in noted if row.subscription_id]
    assert len(batch) == len(list(batch))


def test_an_event_that_is_delivered_at_once_is_one_row() -> None:
    """Decision 52: its arrival and its attempt meet in the batch."""
    assert list(batch_of(arrives(), is_delivered())) == [delivered(TAKEN, 1.5, wait_ms=500.0)]


@pytest.mark.parametrize(
    "arrival", [arrives(matched=2), arrives(replace(TAKEN, tenant="shop")), arrives(replace(TAKEN, type="x"))]
)
def test_other_events_keep_the_row_of_their_arrival(arrival: Step) -> None:
    """One for two subscriptions, and those that share only the id."""
    assert list(batch_of(arrival, is_delivered())) == [arrival(HistoryBatch()), delivered(TAKEN, 1.5)]


def test_an_event_whose_attempt_fails_keeps_the_row_of_its_arrival() -> None:
    """Its timeline begins with it."""
    assert list(batch_of(arrives(), happens(FAILED))) == [received_row(TAKEN, 1), FAILED]


def test_an_event_that_is_taken_again_keeps_its_second_arrival() -> None:
    """The first one is joined, and the second one has a row of its own."""
    again = replace(TAKEN, arrived_at=1.25)

    assert list(batch_of(arrives(), arrives(again), is_delivered())) == [
        received_row(again, 1),
        delivered(TAKEN, 1.5, wait_ms=500.0),
    ]


def test_the_last_row_of_a_delivery_is_its_last_step() -> None:
    """By it the overview knows which deliveries wait: a replay that succeeds at once does not."""
    replayed = HistoryRow(1.25, "replayed", "ord-1", "acme", "order.created", "sub_1", "dlv_1")
    activity = Activity()

    for number, row in enumerate(batch_of(arrives(), happens(replayed), is_delivered())):
        activity.add(number, row)

    assert activity.waiting("sub_1") == 0


def test_each_text_is_printable() -> None:
    """A delivery message of a foreign program may contain any text; PostgreSQL takes neither of these."""
    odd = replace(TAKEN, tenant="acme\0", type="t\ud800")
    again = replace(odd, arrived_at=2.0)

    batch = batch_of(arrives(odd), is_delivered(odd), arrives(again), arrives(again))

    rows = list(batch)
    assert {(row.tenant, row.type) for row in rows} == {(r"acme\x00", r"t\ud800")}
    assert [row.wait_ms for row in rows if row.step == "attempt"] == [500.0]
    assert len(batch) == len(rows) == 3


def test_deliveries_leave_nothing_to_the_collector() -> None:
    """A busy worker keeps thousands of them for a second: as objects they would cost pauses of the loop."""
    batch = HistoryBatch()
    gc.collect()
    before = len(gc.get_objects())

    for number in range(1_000):
        of = replace(TAKEN, id=f"ord-{number}")
        batch.add_arrival(of, 1)
        batch.add_delivery(of, "sub_1", ATTEMPT, b"ok", "")

    assert len(batch) == 1_000
    assert len(gc.get_objects()) - before < 100


def test_the_time_since_the_arrival_is_no_chosen_wait() -> None:
    """The API and the commands show the wait until the next attempt."""
    [joined] = batch_of(arrives(), is_delivered())

    assert chosen_wait_s(joined) is None
    assert chosen_wait_s(FAILED._replace(wait_ms=500.0)) == 0.5
