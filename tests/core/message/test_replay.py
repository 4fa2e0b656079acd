"""A replay begins anew: same event, same id, same target; it remembers its attempts, and counts none."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.attempt_headers import KEPT_EARLIER
from consumer.core.message.delivery import DeliveryMessage, headers_of, read_delivery
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.replay import replayed_delivery, replayed_headers
from consumer.core.model import Attempt, OutcomeKind, ParkReason
from consumer.core.retry.policy import POLICIES, deadline
from tests.support.builders.deliveries import MS, deliveries
from tests.support.builders.messages import message
from tests.support.builders.parked import delivery

ATTEMPT = Attempt(number=1, at=0.0, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.25, wait_s=1.0)


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
    """The webhook-id and bytes stay, so the receiver recognises it; attempts and age count anew (S1-5)."""
    replayed = replayed_delivery(entry(parked), now)

    assert replayed is not None
    assert replayed.targets == parked.targets
    assert replayed.event == replace(parked.event, arrived_at=now, expires_at=None)
    assert (replayed.attempts, replayed.attempts_made) == ((), 0)
    assert (replayed.replays, replayed.first_arrived_at) == (parked.replays + 1, parked.first_arrived_at)
    assert (replayed.all_attempts, replayed.made_in_all) == (parked.all_attempts, parked.made_in_all)
    assert (replayed.not_before, replayed.wait_s) == (0, 0)
    assert (replayed.exact, replayed.reserved) == (False, False)


@given(deliveries(), st.floats(1, 4e9))
def test_a_replay_is_never_expired_when_it_arrives(parked: DeliveryMessage, now: float) -> None:
    """However old the entry, and despite its producer's expiration: an operator wants it now (S1-5)."""
    replayed = replayed_delivery(entry(parked), now)

    assert replayed is not None
    event = replayed.event
    assert deadline(POLICIES["default"], event.arrived_at, event.expires_at) > now


def test_a_raw_entry_has_no_delivery_to_replay() -> None:
    """It is published once more as its producer did, which is the edge's work."""
    assert replayed_delivery(entry(None), 1.0) is None


def test_a_raw_replay_has_its_producers_properties_and_sends_no_copies() -> None:
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


def test_of_very_many_attempts_the_newest_stay_and_all_are_counted() -> None:
    """S1-5: replayed again and again, it keeps its newest 128 attempts, and the count of all."""
    owed, seen = delivery(attempts=(), attempts_made=0), 0
    for replays in range(60):
        run = tuple(ATTEMPT._replace(number=n, at=float(100 * replays + n)) for n in range(1, 6))
        seen += len(run)
        owed = replace(owed, attempts=run, attempts_made=len(run))
        again = replayed_delivery(entry(owed), 1_000.0)
        assert again is not None
        owed = read_delivery(message(owed.event.body, headers=headers_of(again)))

    assert (owed.replays, owed.made_in_all) == (60, seen)
    assert [(a.replay, a.number) for a in owed.all_attempts] == [
        (made // 5, made % 5 + 1) for made in range(seen - KEPT_EARLIER, seen)
    ]
    assert sum(len(str(value)) for value in headers_of(owed).values()) < 16_384
