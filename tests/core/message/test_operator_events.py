"""An administrator gets one event at first, then sums, and never a flood."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.operator_events import (
    EVENTS_MAX,
    WINDOW_S,
    Digest,
    Note,
    OperatorEvent,
    OperatorEventType,
)

AT = 1_700_000_000.0
PARKED = Note(
    type=OperatorEventType.DELIVERY_PARKED, tenant="acme", subject="sub_1", reason="exhausted: HTTP 503"
)


def test_the_first_is_reported_at_once_and_the_rest_in_one_sum() -> None:
    """S2-5: 1,000 parked deliveries of one subscription are two events, not a thousand."""
    digest = Digest()

    at_once = [e for n in range(1000) for e in digest.note(PARKED, AT + n / 100)]
    early, sums, after = digest.due(AT + 30), digest.due(AT + 60), digest.due(AT + 121)

    assert [(e.count, e.first_at) for e in at_once] == [(1, AT)]
    assert (early, after) == ((), []) or (early, after) == ([], [])
    assert [(e.count, e.first_at, e.last_at) for e in sums] == [(999, AT + 0.01, AT + 9.99)]
    assert sums[0].id != at_once[0].id
    assert [e.count for e in digest.note(PARKED, AT + 122)] == [1]


def test_many_different_things_are_summed_by_type() -> None:
    """Ten thousand tenants in trouble at once are reported as sixty events and one sum."""
    digest = Digest()

    told = [
        e
        for n in range(10_000)
        for e in digest.note(Note(type=OperatorEventType.BREAKER_OPENED, tenant=f"t{n}", subject=f"s{n}"), AT)
    ]
    [rest] = digest.due(AT + WINDOW_S)

    assert len(told) == EVENTS_MAX
    assert (rest.note.type, rest.note.tenant, rest.count) == ("breaker.opened", "", 10_000 - EVENTS_MAX)


def test_the_sum_of_a_storm_is_reported_while_it_lasts() -> None:
    """S2-5: something happens all the time, ever elsewhere: each minute has its sixty and its sum."""
    digest, told = Digest(), list[OperatorEvent]()

    for second in range(1, 181):
        for tenth in range(10):
            one = Note(type=OperatorEventType.BREAKER_OPENED, tenant="acme", subject=f"s{second}-{tenth}")
            told += digest.note(one, AT + second + tenth / 10)
        told += digest.due(AT + second + 0.95)

    sums = [event.count for event in told if event.summed_at is not None]
    assert sums == [540, 540]
    assert sum(event.count for event in digest.left(AT + 200)) == 540


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    """Fault 74: the wall clock goes back by an hour: one event is reported at once, later ones summed up."""
    digest = Digest()
    for number in range(EVENTS_MAX + 5):
        digest.note(Note(type=OperatorEventType.TENANT_NOISY, tenant=f"t{number}"), AT)
    back = AT - 3600

    [rest, first] = digest.note(
        Note(type=OperatorEventType.BREAKER_OPENED, tenant="acme", subject="sub_1"), back
    )

    assert (rest.count, first.note.type) == (5, OperatorEventType.BREAKER_OPENED)
    digest.note(first.note, back + 1)
    assert [e.count for e in digest.due(back + WINDOW_S)] == [1]


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 200))))
def test_nothing_is_forgotten_and_nothing_reported_twice(steps: list[tuple[int, float]]) -> None:
    """For every history: the counts of all events add up to the notes, under ids of their own."""
    digest, now, told = Digest(), AT, list[OperatorEvent]()
    for number, pause_s in steps:
        now += pause_s
        told += digest.note(Note(type=OperatorEventType.TENANT_NOISY, tenant=f"t{number}"), now)
        told += digest.due(now)
    told += digest.due(now + 2 * WINDOW_S)

    assert sum(event.count for event in told) == len(steps)
    sums = [event for event in told if event.summed_at is not None]
    assert len({event.id for event in sums}) == len(sums)


def test_two_workers_report_one_thing_under_one_id() -> None:
    """A receiver that dedupes by id hears of an outage once, however many workers saw it."""
    [one], [other] = Digest().note(PARKED, AT), Digest().note(PARKED, AT + 1)

    assert one.id == other.id


def test_it_is_a_cloud_event() -> None:
    """CloudEvents 1.0.2, structured; a stranger's text is made safe and short."""
    note = Note(
        type=OperatorEventType.DELIVERY_PARKED,
        tenant="acme",
        subject="sub_1",
        reason="\x1b[2J\ud800" + "x" * 999,
    )
    [event] = Digest().note(note, AT)

    said = json.loads(event.cloud_event("/leveret"))

    assert {k: said[k] for k in ("specversion", "source", "type", "subject", "time")} == {
        "specversion": "1.0",
        "source": "/leveret",
        "type": "delivery.parked",
        "subject": "sub_1",
        "time": "2023-11-14T22:13:20.000Z",
    }
    assert said["data"]["count"] == 1
    assert said["data"]["reason"].startswith(r"\x1b[2J")
    assert len(said["data"]["reason"]) == 300
