"""The fair queue: turns between tenants, order within one, constant time."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness import FairQueue, Standing, priority_after

ROWS: list[dict[str, int]] = json.loads((Path(__file__).parents[1] / "data/priority.json").read_text())
#: A tenant to push for, or None to pop.
steps = st.lists(st.one_of(st.sampled_from("aaabcd"), st.none()), max_size=200)


@pytest.mark.parametrize("row", ROWS)
def test_priority_ages_from_five_to_one(row: dict[str, int]) -> None:
    """S1-8: one step per round without service, never past 1."""
    assert priority_after(row["rounds_without_service"]) == row["priority"]


def test_rounds_are_never_negative() -> None:
    """S1-8: there is no priority below 5."""
    with pytest.raises(ValueError, match="negative"):
        priority_after(-1)


@given(steps, st.integers(1, 4))
def test_turns_order_and_counts_hold_for_any_traffic(steps: list[str | None], limit: int) -> None:
    """S1-8: at most *limit* in a row while another waits; in order per tenant; nothing lost."""
    queue: FairQueue[tuple[str, int]] = FairQueue(limit)
    model: dict[str, list[int]] = defaultdict(list)
    last, in_a_row = "", 0
    for number, tenant in enumerate(steps):
        if tenant is not None:
            queue.push(tenant, (tenant, number))
            model[tenant].append(number)
        elif any(model.values()):
            others_wait = {t for t, jobs in model.items() if jobs}
            served, job = queue.pop()
            assert job == model[served].pop(0)
            alone = others_wait == {served}
            in_a_row = 0 if alone else (in_a_row + 1 if served == last else 1)
            last = served
            assert in_a_row <= limit
        assert len(queue) == sum(map(len, model.values()))
        assert all(queue.waiting(t) == len(model[t]) for t in "abcd")
    assert len(queue.drain()) == sum(map(len, model.values()))
    assert len(queue) == 0


def test_nobody_waits_longer_than_one_turn_of_each_other() -> None:
    """FAULTS 71: behind a flood of one tenant and turns of three, the quiet one is fourth."""
    queue: FairQueue[str] = FairQueue()
    for _ in range(1000):
        queue.push("flood", "flood")
    queue.push("quiet", "quiet")

    served = [queue.pop() for _ in range(4)]

    assert served == ["flood", "flood", "flood", "quiet"]


def test_rounds_are_the_turns_of_others() -> None:
    """S1-9: waiting jobs, rounds without service and jobs in a row, told for each tenant that waits."""
    queue: FairQueue[str] = FairQueue()
    for tenant in "aaaaabbc":
        queue.push(tenant, tenant)
    assert queue.standings() == {"a": (5, 0, 0), "b": (2, 0, 0), "c": (1, 0, 0)}

    for expected in (
        {"a": (4, 0, 1), "b": (2, 0, 0), "c": (1, 0, 0)},
        {"a": (3, 0, 2), "b": (2, 0, 0), "c": (1, 0, 0)},
        {"b": (2, 1, 0), "c": (1, 1, 0), "a": (2, 0, 0)},
        {"b": (1, 0, 1), "c": (1, 1, 0), "a": (2, 0, 0)},
        {"c": (1, 2, 0), "a": (2, 1, 0)},
        {"a": (2, 2, 0)},
        {"a": (1, 0, 1)},
        {},
    ):
        queue.pop()
        assert queue.standings() == expected


def test_standings_of_two_queues_are_one() -> None:
    """S1-9: jobs add up, the longer wait and the longer batch count."""
    assert Standing(2, 3, 0).beside(Standing(1, 0, 2)) == Standing(3, 3, 2)


def test_every_turn_is_a_full_one() -> None:
    """S1-8: a tenant that ran empty in its turn leaves the next one all three jobs."""
    queue: FairQueue[str] = FairQueue()
    for tenant in "aabbbbc":
        queue.push(tenant, tenant)

    assert "".join(queue.drain()) == "aabbbcb"


def test_one_tenant_alone_gets_everything() -> None:
    """S1-8: the limit binds only while another waits."""
    queue: FairQueue[int] = FairQueue()
    for number in range(10):
        queue.push("only", number)

    assert queue.drain() == list(range(10))


def test_empty_queue_says_so() -> None:
    """There is no job to take from an empty queue."""
    with pytest.raises(IndexError):
        FairQueue[int]().pop()


def test_a_turn_has_at_least_one_job() -> None:
    """S1-8: a limit of zero would serve nobody."""
    with pytest.raises(ValueError, match="at least one"):
        FairQueue(0)
