"""Each attempt of a delivery is made once, however many copies of its messages come, in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.event.seen_events import Seen
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.settled_attempts import DOUBTED_S, SettledAttempts
from tests.support.worker import event

TARGET = "sub_1"


def message(made: int = 0, event_id: str = "e", **more: object) -> DeliveryMessage:
    """A delivery message after so many attempts."""
    return DeliveryMessage(event=event(id=event_id, **more), targets=(TARGET,), attempts_made=made)


def settle(attempts: SettledAttempts, one: DeliveryMessage) -> Seen:
    """Take a message to its end, if it is new; return its state before."""
    state = attempts.begin(one, TARGET)
    if state is Seen.NEW:
        attempts.end(one, [TARGET], [TARGET])
    return state


@given(st.lists(st.integers(0, 5), max_size=60))
def test_no_order_of_copies_makes_an_attempt_twice_or_leaves_the_last_one_out(made: list[int]) -> None:
    """The newest message of the chain is always new: no copy takes its place, and none is lost."""
    attempts = SettledAttempts()
    sent = [number for number in made if settle(attempts, message(number)) is Seen.NEW]

    assert sent == sorted(set(sent))
    assert not made or max(made) in sent
    assert settle(attempts, message(6)) is Seen.NEW


def test_a_copy_waits_while_the_attempt_is_made() -> None:
    """An attempt that was not settled is made again: then the copy owes it."""
    attempts, one = SettledAttempts(), message(2)
    assert attempts.begin(one, TARGET) is Seen.NEW
    assert attempts.begin(one, TARGET) is Seen.RUNNING
    attempts.end(one, [TARGET], [])

    assert settle(attempts, one) is Seen.NEW
    assert settle(attempts, one) is Seen.DONE


def test_a_replay_and_a_second_event_with_the_same_id_are_other_deliveries() -> None:
    """The time of arrival, the bytes and the target belong to the key."""
    attempts, one = SettledAttempts(), message(3)
    assert settle(attempts, one) is Seen.NEW

    assert attempts.begin(one, "sub_2") is Seen.NEW
    assert attempts.begin(message(0, arrived_at=one.event.arrived_at + 0.001), TARGET) is Seen.NEW
    assert attempts.begin(message(0, body=b"2"), TARGET) is Seen.NEW


def test_the_memory_is_bounded_and_keeps_deliveries_in_doubt() -> None:
    """A flood of other retries does not push out the deliveries whose publishes were made again."""
    attempts = SettledAttempts(most=10, most_doubted=5)
    for number in range(5):
        attempts.doubt(message(1, f"doubted-{number}"), float(number))
        settle(attempts, message(1, f"doubted-{number}"))
    for number in range(100):
        settle(attempts, message(1, f"e-{number}"))

    assert len(attempts) == 15
    assert all(settle(attempts, message(1, f"doubted-{number}")) is Seen.DONE for number in range(5))
    assert settle(attempts, message(1, "e-99")) is Seen.DONE
    assert settle(attempts, message(1, "e-0")) is Seen.NEW
    attempts.doubt(message(1, "late"), DOUBTED_S + 2.0)
    assert len(attempts) == 14
    assert settle(attempts, message(1, "doubted-0")) is Seen.NEW


def test_doubt_keeps_what_was_settled() -> None:
    """Also where it begins after the attempt."""
    attempts, one = SettledAttempts(), message(2)
    settle(attempts, one)
    attempts.doubt(replace(one, attempts_made=3), 0.0)

    assert settle(attempts, one) is Seen.DONE
    assert settle(attempts, replace(one, attempts_made=3)) is Seen.NEW
