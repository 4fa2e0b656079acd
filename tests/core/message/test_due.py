"""When a delivery message is due, and when its time is over, while clocks are set (fault 82)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.clock_steps import ClockSteps
from consumer.core.message.delivery import DeliveryMessage, headers_of, read_delivery
from consumer.core.message.due import late_s, off_rung, rest_s, served, waited_s
from consumer.core.model import Attempt, Event, OutcomeKind, RawMessage
from topology.ladder import Ladder, first_hop_s, next_hop_s

NOW = 1_700_000_000.0
DAY = 86_400.0


def waiting(**more: Any) -> DeliveryMessage:
    """A delivery message whose event came just now."""
    event = Event(id="e", tenant="t", type="x", timestamp="", arrived_at=NOW, body=b"{}")
    return DeliveryMessage(event=event, targets=("sub_1",), **more)


@given(
    st.floats(0, 3 * DAY),
    st.lists(st.floats(-40 * DAY, 40 * DAY), max_size=20),
)
def test_no_wait_outlasts_the_chosen_one(wait_s: float, steps: list[float]) -> None:
    """Fault 82: however the clock is set between the hops, the hops and the hold add up to the wait at most.

    Only the shortest rung may be more: a failure is always stored.
    """
    ladder, clock_s, true_s = Ladder(), NOW, 0.0
    message = waiting(not_before=NOW + wait_s, wait_s=wait_s)
    rung_s = first_hop_s(rest_s(message, clock_s), ladder)
    for step_s in [*steps, *[0.0] * 40]:
        message = served(message, rung_s)
        true_s += rung_s
        clock_s += rung_s + step_s
        if (rest := rest_s(message, clock_s)) <= 0:
            break
        hop_s = next_hop_s(rest, wait_s, ladder)
        if hop_s is None:
            true_s += rest
            break
        rung_s = hop_s
    else:
        pytest.fail("it walks on for ever")
    assert true_s <= max(wait_s, ladder.rungs_s[0]) + 0.001
    if not any(steps):
        assert true_s >= wait_s - 0.001, "nothing is early where nobody sets the clock"


def test_an_older_worker_writes_and_reads_its_own() -> None:
    """A rolling upgrade: without the header nothing counts as served; an older worker ignores it."""
    message = waiting(not_before=NOW + 4, wait_s=4.0)
    headers = headers_of(served(message, 3.0))
    assert headers.pop("leveret-served") == 3000
    older = read_delivery(RawMessage(body=b"{}", headers=headers, exchange="", routing_key=""))

    assert older == message
    assert rest_s(older, NOW - DAY) == 4.0
    assert "leveret-served" not in headers_of(message)
    assert "leveret-late" not in headers_of(message)


def test_a_rung_that_was_left_early_served_nothing() -> None:
    """Taken out by a command: the time served on that rung is unknown, so it does not count."""
    message = served(served(waiting(wait_s=100.0), 60.0), 30.0)

    assert off_rung(message, 30.0).served_s == 60.0
    assert off_rung(waiting(wait_s=100.0), 30.0).served_s == 0.0


@pytest.mark.parametrize(
    ("message", "deadline", "now", "late"),
    [
        (waiting(not_before=NOW + 4), NOW + DAY, NOW + 5, 0.0),  # in time
        (waiting(not_before=NOW + 4), NOW + DAY, NOW + 4 + DAY, DAY),  # a jump by a day: one more try
        (waiting(not_before=NOW + DAY), NOW + DAY, NOW + DAY, 0.0),  # put off to its deadline
        (waiting(), NOW + DAY, NOW + 2 * DAY, 2 * DAY),  # never had a wait
        (waiting(not_before=NOW + 4 + DAY, late_s=DAY), NOW + DAY * 2, NOW + DAY + 5, DAY),  # lives on
        (waiting(not_before=NOW + 2 * DAY, late_s=DAY), NOW + DAY * 2, NOW + DAY * 2, DAY),  # it is over
    ],
)
def test_a_late_delivery_gets_one_more_try(
    message: DeliveryMessage, deadline: float, now: float, late: float
) -> None:
    """Fault 82: a delivery that was due before its deadline is sent, even if the clock is past it."""
    assert late_s(message, [deadline], now) == pytest.approx(late)


def test_steps_are_distinguished_from_passing_time() -> None:
    """Forward and back, once each; a clock that drifts by a few seconds is not set."""
    at = [100.0]
    steps = ClockSteps(lambda: at[0])
    assert steps.set_back_s(NOW) == 0.0

    at[0] += 3 * DAY  # it was quiet for long
    assert steps.set_back_s(NOW + 3 * DAY + 4) == 0.0
    assert steps.set_back_s(NOW + 4 * DAY) == -DAY
    assert steps.set_back_s(NOW + 4 * DAY) == 0.0
    at[0] += 10
    assert steps.set_back_s(NOW + 10) == 4 * DAY


def test_the_wait_counts_from_the_end_of_the_last_attempt() -> None:
    """S0-10: decorrelated waits grow from the wait before; after a step back of the clock it is 0."""
    last = Attempt(number=1, at=NOW, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=2.0)
    message = waiting(attempts=(last,), attempts_made=1)

    assert waited_s(waiting(), NOW + 5.0) == 0.0
    assert waited_s(message, NOW + 5.0) == 3.0
    assert waited_s(message, NOW - 5.0) == 0.0
