"""Delivery messages that Hypothesis draws."""

from __future__ import annotations

from hypothesis import strategies as st

from consumer.core.message.attempt_headers import Earlier
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import Attempt, DataForm, Event, OutcomeKind

TEXT = st.text(max_size=30)
MS = st.integers(0, 4_102_444_800_000).map(lambda ms: ms / 1000)  #: moments that whole milliseconds hold
EVENTS = st.builds(
    Event,
    id=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    tenant=TEXT,
    type=TEXT,
    timestamp=TEXT,
    arrived_at=MS,
    body=st.binary(max_size=60),
    content_type=st.text(min_size=1, max_size=30),
    form=st.sampled_from(DataForm),
    data_start=st.integers(0, 50),
    data_end=st.none() | st.integers(0, 60),
    extras=st.dictionaries(TEXT, TEXT, max_size=4),
    trace=st.dictionaries(TEXT, TEXT, max_size=2),
    expires_at=st.none() | MS,
    timestamp_assumed=st.booleans(),
)


ATTEMPTS = st.builds(
    Attempt,
    number=st.integers(1, 1000),
    at=MS,
    kind=st.sampled_from(OutcomeKind),
    status=st.none() | st.integers(100, 999),
    duration_s=st.integers(0, 60_000).map(lambda ms: ms / 1000),
    wait_s=st.none() | MS,
    replay=st.just(0),
)


@st.composite
def earliers(draw: st.DrawFn) -> Earlier:
    """Draw the attempts and times before a replay; each attempt names the replay that it followed."""
    replays = draw(st.integers(1, 5))
    attempts = tuple(
        draw(ATTEMPTS)._replace(replay=draw(st.integers(0, replays - 1)))
        for _ in range(draw(st.integers(0, 5)))
    )
    return Earlier(
        replays=replays,
        first_arrived_at=draw(MS),
        attempts=attempts,
        attempts_made=len(attempts) + (draw(st.integers(0, 3)) if attempts else 0),
    )


@st.composite
def deliveries(draw: st.DrawFn) -> DeliveryMessage:
    """Draw a delivery message: it was attempted at least as often as it has remembered attempts."""
    attempts = tuple(draw(st.lists(ATTEMPTS, max_size=5)))
    return DeliveryMessage(
        event=draw(EVENTS),
        targets=tuple(draw(st.lists(st.from_regex(r"sub_[0-9a-f]{16}", fullmatch=True), max_size=5))),
        attempts=attempts,
        attempts_made=len(attempts) + (draw(st.integers(0, 3)) if attempts else 0),
        not_before=draw(MS),
        wait_s=draw(MS),
        exact=draw(st.booleans()),
        reserved=draw(st.booleans()),
        served_s=draw(MS),
        late_s=draw(MS),
        by_hand_until=draw(MS),
        earlier=draw(st.none() | earliers()),
    )
