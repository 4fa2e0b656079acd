"""An event id counts as seen only after the ack, for the window, and in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.event.seen_events import Seen, SeenEvents
from tests.support.worker import event


def test_an_event_is_seen_after_its_ack_and_for_the_window() -> None:
    """S1-15: running, done for 60 s, then new again; that id of another tenant or type is another event."""
    seen, one = SeenEvents(60.0), event()

    assert seen.begin(one, 0.0) is Seen.NEW
    assert seen.begin(one, 1.0) is Seen.RUNNING
    seen.end(one, 2.0, acked=True)
    assert seen.begin(one, 61.9) is Seen.DONE
    assert seen.begin(event(tenant="globex"), 3.0) is Seen.NEW
    assert seen.begin(event(type="order.paid"), 3.0) is Seen.NEW
    assert seen.begin(one, 62.0) is Seen.NEW


def test_an_event_that_was_not_acked_is_new_again() -> None:
    """S1-15: the broker gives it out again, and that copy owes the deliveries."""
    seen, one = SeenEvents(60.0), event()
    seen.begin(one, 0.0)

    seen.end(one, 1.0, acked=False)

    assert seen.begin(one, 2.0) is Seen.NEW


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200), st.integers(1, 8))
def test_memory_is_bounded(steps: list[tuple[int, bool]], most: int) -> None:
    """S1-15: never more than the limit; the newest acked event is always known."""
    seen, now = SeenEvents(1_000.0, most), 0.0
    for number, acked in steps:
        now += 1.0
        one = event(id=f"e{number}")
        if seen.begin(one, now) is Seen.NEW:
            seen.end(one, now, acked=acked)
            assert not acked or seen.begin(one, now) is Seen.DONE
        assert len(seen) <= most
