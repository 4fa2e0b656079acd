"""Jain's index, and over whom it is taken."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.jain import MINUTE_S, Jain, Minute, jain


@pytest.mark.parametrize(
    ("amounts", "index"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([3.0], 1.0),
        ([5.0] * 7, 1.0),
        ([1.0, 0.0, 0.0, 0.0], 0.25),
        ([1.0, 3.0], 0.8),
    ],
)
def test_the_index_is_that_of_its_definition(amounts: list[float], index: float) -> None:
    """(sum x)^2 / (n sum x^2): 1 for equal amounts, 1/n when one of n has all."""
    assert jain(amounts) == pytest.approx(index)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_the_index_is_between_one_nth_and_one(amounts: list[float]) -> None:
    """The index is between 1/n and 1 for all amounts."""
    assert 1 / len(amounts) - 1e-9 <= jain(amounts) <= 1 + 1e-9


def looks(minute: Minute, waiting: str, per_s: Mapping[str, float], start: int, end: int) -> list[Jain]:
    """Look once a second; return the minutes that ended."""
    found = [
        minute.look(set(waiting), {t: rate * now for t, rate in per_s.items()}, float(now))
        for now in range(start, end)
    ]
    return [each for each in found if each is not None]


def test_only_tenants_that_waited_throughout_are_compared() -> None:
    """A tenant that ran dry had all that it wanted; its small part is no unfairness."""
    minute, rates = Minute(), {"a": 10.0, "b": 10.0, "c": 0.1}

    assert looks(minute, "abc", rates, 0, 30) == []
    assert looks(minute, "ab", rates, 30, 31) == []
    [found] = looks(minute, "abc", rates, 31, 61)
    assert found.value == pytest.approx(1.0)
    assert found.tenants == 2


def test_each_minute_stands_for_itself() -> None:
    """An even past does not hide an uneven present."""
    minute = Minute()
    looks(minute, "ab", {"a": 5.0, "b": 5.0}, 0, int(MINUTE_S))

    [first] = looks(minute, "ab", {"a": 5.0, "b": 5.0}, 60, 61)
    found = [minute.look({"a", "b"}, {"a": 300.0 + 9 * s, "b": 300.0 + s}, 60.0 + s) for s in range(1, 61)]

    assert first.value == pytest.approx(1.0)
    last = found[-1]
    assert last is not None
    assert last.value == pytest.approx(100 / 164)
    assert last.tenants == 2


def test_a_tenant_that_began_anew_counts_nothing_below_zero() -> None:
    """Accounts of tenants that had no work for a while are forgotten: their count falls back to 0."""
    minute = Minute()
    minute.look({"a", "b"}, {"a": 100.0, "b": 100.0}, 0.0)

    found = minute.look({"a", "b"}, {"a": 3.0, "b": 160.0}, MINUTE_S)

    assert found == Jain(0.5, 2)
