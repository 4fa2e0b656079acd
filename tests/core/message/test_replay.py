"""A replay begins anew: same event, same id, same target; no attempt is held against it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.replay import replayed_delivery, replayed_headers
from consumer.core.model import ParkReason
from consumer.core.retry.policy import POLICIES, deadline
from tests.support.builders.deliveries import MS, deliveries
from tests.support.builders.messages import message


def entry(delivery: DeliveryMessage | None) -> ParkedEntry:
    """A parked entry."""
    raw = message() if delivery is None else None
    return ParkedEntry(
        id="prk_1",
        reason=ParkReason.EXHAUSTED,
        detail="HTTP 503",
        parked_at=0,
        ttl_s=1,
        body=b"{}",
        delivery=delivery,
        raw=raw,
    )


@given(deliveries(), MS.filter(bool))
def test_a_replay_keeps_the_event_and_starts_its_age_and_attempts_anew(
    parked: DeliveryMessage, now: float
) -> None:
    """The webhook-id and bytes stay, so the receiver can tell; attempts and age count anew (S1-5)."""
    replayed = replayed_delivery(entry(parked), now)

    assert replayed is not None
    assert replayed.targets == parked.targets
    assert replayed.event == replace(parked.event, arrived_at=now, expires_at=None)
    assert (replayed.attempts, replayed.attempts_made) == ((), 0)
    assert (replayed.not_before, replayed.wait_s) == (0, 0)
    assert (replayed.exact, replayed.reserved) == (False, False)


@given(deliveries(), st.floats(1, 4e9))
def test_a_replay_is_never_expired_when_it_arrives(parked: DeliveryMessage, now: float) -> None:
    """However old the entry and whatever its producer's expiration: somebody wants it now (S1-5)."""
    replayed = replayed_delivery(entry(parked), now)

    assert replayed is not None
    event = replayed.event
    assert deadline(POLICIES["default"], event.arrived_at, event.expires_at) > now


def test_a_raw_entry_has_no_delivery_to_replay() -> None:
    """It is published once more as its producer did, which is the edge's work."""
    assert replayed_delivery(entry(None), 1.0) is None


def test_a_raw_replay_says_what_its_producer_said_and_sends_no_copies() -> None:
    """RabbitMQ routes by ``CC`` and ``BCC`` as written; lower case is an ordinary header (S1-5)."""
    kept: dict[str, object] = {"tenant": "acme", "ce-id": "1", "cc": "boss", "traceparent": "00-1"}
    over: dict[str, object] = {
        "CC": ["other.key"],
        "BCC": ["third.key"],
        "x-death": [],
        "X-Delivery-Count": 3,
        "leveret-v": 1,
    }

    assert replayed_headers(kept | over) == kept
