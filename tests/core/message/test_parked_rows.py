"""A row of the index shows and filters as its entry does."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.parked import (
    ParkedEntry,
    delivery_entry_headers,
    entry_as_dict,
    read_entry,
)
from consumer.core.message.parked_filter import Filter
from consumer.core.message.records import SHOWN_ATTEMPTS, parked_row, row_as_cells, row_as_dict
from consumer.core.model import Attempt, OutcomeKind, RawMessage
from tests.support.builders.parked import AT, NOTE, delivery, parked

TENANTS = st.sampled_from(["acme", "beta"])


def entry(at: float = AT) -> ParkedEntry:
    """An entry as the queue gives it out."""
    message = delivery()
    raw = RawMessage(body=message.event.body, headers={}, exchange="", routing_key="", queue="")
    return read_entry(parked(raw, delivery_entry_headers(message, replace(NOTE, at=at))))


def test_a_row_has_every_field_of_its_entry() -> None:
    """S1-3, S1-13: also a listing of JSON is complete; a row of an earlier release has the main fields."""
    one = entry()
    row = parked_row(one)

    assert row_as_dict(row) == entry_as_dict(one)
    assert row_as_cells(row).items() <= entry_as_dict(one).items()
    before = row_as_dict(replace(row, shown=""))
    assert {**before, "ttl_s": one.ttl_s}.items() <= entry_as_dict(one).items()


def test_a_row_keeps_only_the_newest_attempts() -> None:
    """Rows stay small, however often a delivery was tried; its number of attempts stays whole."""
    one = entry()
    assert one.delivery is not None
    tried = [Attempt(n, AT + n, OutcomeKind.HTTP_5XX, 503, 0.1) for n in range(1, 61)]
    many = replace(one, delivery=replace(one.delivery, attempts=tuple(tried), attempts_made=60))
    shown, whole = row_as_dict(parked_row(many)), entry_as_dict(many)

    attempts = whole["attempts"]
    assert isinstance(attempts, list)
    assert shown["attempts"] == attempts[-SHOWN_ATTEMPTS:]
    assert {**shown, "attempts": None} == {**whole, "attempts": None}


@given(
    at=st.floats(AT - 10, AT + 10),
    tenant=st.none() | TENANTS,
    kind=st.none() | st.sampled_from(["order.*", "#", "invoice.paid"]),
    subscription=st.none() | st.sampled_from(["sub_1", "sub_2"]),
    since=st.none() | st.floats(AT - 10, AT + 10),
)
def test_a_filter_takes_the_row_exactly_if_it_takes_the_entry(
    at: float, tenant: str | None, kind: str | None, subscription: str | None, since: float | None
) -> None:
    """S1-13: a listing and a replay with the same filters mean the same entries."""
    one = entry(at)
    chosen = Filter(tenant=tenant, type=kind, subscription=subscription, since=since)

    assert chosen(one) == chosen.takes_row(parked_row(one))
