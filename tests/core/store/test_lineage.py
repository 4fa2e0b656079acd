"""The decision which store is the right one: as a table, and over any history of copies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.store.lineage import Doubt, Generation, Lineage, decode, encode, judge, must_record, read


def lineage(store: str, marks: dict[int, str], subscriptions: int = 1) -> Lineage:
    """Return a store with the given history."""
    newest = max(marks)
    return Lineage(
        generation=Generation(store, newest, marks[newest]), marks=marks, subscriptions=subscriptions
    )


OWN = lineage("a", {3: "c", 4: "d", 5: "e"})


@pytest.mark.parametrize(
    ("record", "doubt"),
    [
        (None, None),
        (Generation("a", 5, "e"), None),
        (Generation("a", 3, "c"), None),
        (Generation("a", 1, "forgotten"), None),
        (Generation("a", 4, "x"), Doubt.DIVERGED),
        (Generation("a", 6, "f"), Doubt.OLDER),
        (Generation("b", 1, "e"), Doubt.FOREIGN),
        (Generation("b", 0, ""), None),
    ],
)
def test_the_verdicts(record: Generation | None, doubt: Doubt | None) -> None:
    """Fault 81: only a store that contains the recorded generation is right."""
    assert judge(OWN, record, messages=9) is doubt


@pytest.mark.parametrize(("messages", "doubt"), [(0, None), (1, Doubt.EMPTY)])
def test_an_empty_store_without_a_record(messages: int, doubt: Doubt | None) -> None:
    """Fault 81: an empty store without a record is right only on an empty broker."""
    assert judge(lineage("a", {0: ""}, subscriptions=0), None, messages) is doubt


def test_an_empty_store_beside_a_record_names_it() -> None:
    """The reason calls the store empty, which an operator can verify."""
    assert judge(lineage("a", {0: ""}, subscriptions=0), Generation("b", 2, "x")) is Doubt.EMPTY


@given(st.lists(st.sampled_from("abc"), min_size=1), st.data())
def test_a_copy_that_is_changed_apart_never_passes(branches: list[str], data: st.DataObject) -> None:
    """Of two copies, one contains the other's newest generation only if it descends from it."""
    common = data.draw(st.integers(0, 5))
    marks = {n: f"common{n}" for n in range(common + 1)}
    mine = marks | {common + n + 1: f"mine{n}" for n in range(len(branches))}
    theirs = marks | {common + n + 1: f"theirs{n}" for n in range(data.draw(st.integers(0, 5)))}

    verdict = judge(lineage("s", mine), lineage("s", theirs).generation)

    assert (verdict is None) == (max(theirs) == common)


@pytest.mark.parametrize(
    ("record", "news"),
    [(None, True), (Generation("a", 4, "d"), True), (Generation("a", 5, "e"), False)],
)
def test_recorded_attempts(record: Generation | None, news: bool) -> None:
    """The record follows the store, and equal records are not written again."""
    assert must_record(OWN.generation, record) is news


def test_an_empty_store_does_not_take_the_place_of_another_empty_one() -> None:
    """Two workers with empty stores do not replace each other's record forever."""
    assert not must_record(Generation("a", 0, ""), Generation("b", 0, ""))
    assert must_record(Generation("a", 1, "x"), Generation("b", 0, ""))


@given(st.from_regex(r"[0-9a-f]{1,32}", fullmatch=True), st.integers(0, 2**40))
def test_written_and_read(store: str, number: int) -> None:
    """A generation is the same after encoding and decoding."""
    generation = Generation(store, number, "ab12")

    assert decode(encode(generation)) == generation
    assert read(list(generation)) == generation


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"store":"","number":1,"mark":"a"}', b'{"store":"a","number":-1,"mark":""}']
)
def test_anything_else_is_not_a_record(body: bytes) -> None:
    """Fault 16: any other content is no record, because others may publish there."""
    assert decode(body) is None
