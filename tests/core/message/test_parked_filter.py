"""Choosing among parked entries and counting them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import Filter, GroupBy, filter_as_dict, fits, grouped
from consumer.core.model import Attempt, Event, OutcomeKind, ParkReason, RawMessage
from consumer.core.subscription.match import Matcher
from tests.support.builders.subscriptions import RULES, kept

AT = 1_767_225_600.0


def parked(number: int, tenant: str, kind: str = "order.created", status: int | None = 503) -> ParkedEntry:
    """Return an entry parked *number* seconds after :data:`AT`."""
    event = Event(id=f"evt_{number}", tenant=tenant, type=kind, timestamp="", arrived_at=AT, body=b"{}")
    attempt = Attempt(1, AT, OutcomeKind.HTTP_5XX if status else OutcomeKind.REFUSED, status, 0.1)
    message = DeliveryMessage(event=event, targets=(f"sub_{tenant}",), attempts_made=1, attempts=(attempt,))
    return ParkedEntry(
        id=f"prk_{number}",
        reason=ParkReason.EXHAUSTED,
        detail="x",
        parked_at=AT + number,
        ttl_s=60,
        body=b"{}",
        delivery=message,
    )


def raw(number: int, tenant: object) -> ParkedEntry:
    """Return an entry that was never a delivery, with any tenant header of its producer."""
    message = RawMessage(body=b"x", headers={"tenant": tenant}, exchange="e", routing_key="some.key")
    return ParkedEntry(
        id=f"prk_{number}",
        reason=ParkReason.BAD_TENANT,
        detail="x",
        parked_at=AT + number,
        ttl_s=60,
        body=b"x",
        raw=message,
    )


ENTRIES = [
    parked(0, "acme"),
    parked(1, "acme", "invoice.paid", 404),
    parked(2, "globex"),
    parked(3, "acme", status=None),
    raw(4, ["no", "text"]),
]


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (Filter(), [0, 1, 2, 3, 4]),
        (Filter(tenant="acme"), [0, 1, 3]),
        (Filter(type="order.*"), [0, 2, 3]),
        (Filter(type="*.key"), [4]),
        (Filter(reason="exhausted", tenant="globex"), [2]),
        (Filter(reason=ParkReason.BAD_TENANT), [4]),
        (Filter(subscription="sub_globex"), [2]),
        (Filter(since=AT + 2), [2, 3, 4]),
        (Filter(until=AT + 2), [0, 1]),
        (Filter(ids=frozenset({"prk_1", "prk_9"})), [1]),
    ],
)
def test_every_filter_counts(chosen: Filter, numbers: list[int]) -> None:
    """By tenant, type, reason, subscription and time; all that are given must fit."""
    assert [entry.id for entry in ENTRIES if chosen(entry)] == [f"prk_{number}" for number in numbers]


def test_groups_are_counted_largest_first() -> None:
    """S1-13: by code and by tenant, with the span of time; entries without the field are a group, too."""
    rows = [entry_as_dict(entry) for entry in ENTRIES]

    by_tenant = grouped(rows, [GroupBy.TENANT])
    by_both = grouped(rows, [GroupBy.TENANT, GroupBy.STATUS])

    assert [(row["tenant"], row["count"]) for row in by_tenant] == [("acme", 3), ("globex", 1), (None, 1)]
    assert by_tenant[0]["oldest"] == "2026-01-01T00:00:00.000Z"
    assert by_tenant[0]["newest"] == "2026-01-01T00:00:03.000Z"
    assert {(row["tenant"], row["status"]): row["count"] for row in by_both} == {
        ("acme", "503"): 1,
        ("acme", "404"): 1,
        ("acme", "refused"): 1,
        ("globex", "503"): 1,
        (None, None): 1,
    }
    assert sum(int(str(row["count"])) for row in by_both) == len(ENTRIES)


@given(st.recursive(st.none() | st.binary() | st.integers() | st.text(), st.lists))
def test_a_tenant_of_any_kind_can_be_shown(tenant: object) -> None:
    """Faults 12, 16: no header of a producer breaks a listing."""
    shown = entry_as_dict(raw(0, tenant))["tenant"]

    assert shown is None or isinstance(shown, str)
    json.dumps(shown)


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5)


@given(st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=5), WORDS)
def test_types_fit_as_in_a_subscription(pattern: list[str], words: list[str]) -> None:
    """Rules, event patterns: the same rules as everywhere."""
    text, kind = ".".join(pattern), ".".join(words)
    [entry] = kept({"tenant": "t", "name": "n", "url": "https://a.example/", "events": [text]})

    assert fits(text, kind) == bool(Matcher([entry.build(RULES)]).match("t", kind))


def test_many_wildcards_cost_little() -> None:
    """Fault 8: a pattern of wildcards against a long type ends at once."""
    assert not fits(".".join(["#", "a"] * 60), ".".join(["a"] * 59 + ["b"]))


@pytest.mark.parametrize(("at", "shown"), [(-1e300, "0001-01-01T"), (1e300, "9999-12-31T")])
def test_a_time_outside_of_the_calendar_is_shown_too(at: float, shown: str) -> None:
    """A job of an older release may have such a filter; it is listed nevertheless."""
    assert str(filter_as_dict(Filter(since=at))["since"]).startswith(shown)
