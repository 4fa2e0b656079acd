"""The fair queue: the order of tenants, the cost of jobs, and the caps."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import groupby
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import MAX_CONSECUTIVE, FairQueue, Standing, priority_after
from consumer.core.fairness.scheduler import Scheduler
from tests.support.builders.fair_queue import WEIGHTS, ServedQueue, Work, steps
from tests.support.data import DATA

ROWS: list[dict[str, int]] = json.loads((DATA / "priority.json").read_text())


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
    """S1-8: at most *limit* in a row while another waits; in order per tenant; nothing lost, no idling."""
    accounts = Accounts(Caps())
    queue: FairQueue[Work] = FairQueue(accounts, limit)
    model: dict[str, list[int]] = defaultdict(list)
    last, in_a_row = "", 0
    for number, tenant in enumerate(steps):
        if tenant is not None:
            queue.push(Work(tenant, number))
            model[tenant].append(number)
        elif any(model.values()):
            waiting = {t for t, jobs in model.items() if jobs}
            job = queue.pop()
            assert job is not None
            assert job.number == model[job.tenant].pop(0)
            in_a_row = in_a_row + 1 if job.tenant == last else 1
            last = job.tenant
            assert in_a_row <= limit or waiting == {job.tenant}
            accounts.ended(job)
        assert queue.length == sum(map(len, model.values()))
        assert all(queue.waiting_by_tenant().get(t, 0) == len(model[t]) for t in "abcd")
    assert len([*iter(queue.pop, None)]) == sum(map(len, model.values()))
    assert queue.length == 0


@given(st.lists(st.integers(1, 20), min_size=2, max_size=8), st.integers(20, 300))
def test_equal_tenants_with_work_get_equal_service(costs: list[int], served: int) -> None:
    """Backlogged tenants of one weight never differ by more than one batch and one cost."""
    line = ServedQueue()
    names = "abcdefgh"[: len(costs)]
    for tenant, cost in zip(names, costs, strict=True):
        line.push(tenant * served, cost)
    got: Counter[str] = Counter(dict.fromkeys(names, 0))

    for _ in range(served):
        job = line.pop()
        assert job is not None
        got[job.tenant] += job.deliveries
        line.accounts.ended(job)

        assert max(got.values()) - min(got.values()) <= (MAX_CONSECUTIVE + 1) * max(costs)


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=2))
def test_no_tenant_starves_for_all_weights(weights: dict[str, float]) -> None:
    """Everybody with work is served within a round of all the others, however long the flood."""
    line = ServedQueue(weights=weights)
    for tenant in weights:
        line.push(tenant * 400)
    bound = 2 * (sum(weights.values()) / min(weights.values()) + len(weights))

    served = line.serve(400)

    for tenant in weights:
        gaps = [len(gap) for gap in served.split(tenant)]
        assert max(gaps) <= bound, (tenant, served)


def test_weights_share_out_deliveries() -> None:
    """S1-16: 1:2:4, exact to a batch, and no more than three in a row."""
    line = ServedQueue(weights=WEIGHTS)
    for tenant in WEIGHTS:
        line.push(tenant * 7000)

    served = line.serve(7000)

    counts = Counter(served)
    assert [counts[tenant] for tenant in "abc"] == pytest.approx([1000, 2000, 4000], abs=4)
    assert max(len(list(group)) for _, group in groupby(served)) <= MAX_CONSECUTIVE


def test_fan_out_is_paid_for() -> None:
    """Deliveries count, not jobs: a tenant that fans out to 20 starts one job for 20 of the other."""
    line = ServedQueue()
    line.push("w" * 100, 20)
    line.push("n" * 2000)

    counts = Counter(line.serve(1050))

    assert counts["n"] == pytest.approx(20 * counts["w"], abs=60)


def test_a_large_weight_is_worth_more_than_the_limit() -> None:
    """S1-16: the limit applies to tenants of equal weight: 1:9 between two tenants stays 1:9."""
    line = ServedQueue(weights={"a": 9.0})
    line.push("a" * 900 + "b" * 300)

    assert Counter(line.serve(500))["b"] == pytest.approx(50, abs=3)


def test_a_quiet_tenant_goes_before_the_flood() -> None:
    """Fault 71: behind a flood, the quiet one is next or next but one, every time that it comes."""
    line = ServedQueue()
    line.push("f" * 1000)
    line.serve(100)
    for _ in range(20):
        line.push("q")
        assert "q" in line.serve(2)
        line.serve(10)


def test_a_tenant_served_ahead_pays_back_even_after_a_pause() -> None:
    """A tenant whose queue was empty still pays for its job of 20 deliveries."""
    line = ServedQueue()
    line.push("n" * 100)
    line.push("w", 20)
    line.serve(3)

    line.push("w", 20)

    assert "w" not in line.serve(15)
    assert "w" in line.serve(10)


def test_over_its_cap_a_tenant_lets_others_pass_and_borrows_idle_slots() -> None:
    """A quarter of the capacity while others wait, nine tenths when they do not, the rest for them."""
    line = ServedQueue(Caps(capacity=100))
    line.push("a" * 200)
    held = sum(line.pop(scarce=line.accounts.held().get("a", 0) >= 90) is not None for _ in range(100))
    assert held == 90

    line.push("bbbb")

    assert [job.tenant for job in (line.pop(scarce=True) for _ in range(4)) if job] == list("bbbb")
    assert line.pop(scarce=True) is None
    borrowed = line.pop()
    assert borrowed is not None
    assert borrowed.tenant == "a"


def test_over_its_cap_a_tenant_that_aged_is_served() -> None:
    """No starvation: at priority 1, after four rounds, it has its turn beside a stream of others."""
    line = ServedQueue(Caps(capacity=100))
    line.push("a" * 60)
    for _ in range(30):
        assert line.pop() is not None

    line.push("bcdefgh" * 10)
    served = "".join(job.tenant for job in (line.pop() for _ in range(66)) if job)

    assert "a" not in served[:20]
    assert 1 <= served.count("a") <= 3


def test_a_tenant_held_by_its_cap_gets_only_its_turn_after_that() -> None:
    """S1-8: three in a row, however long it was passed over and for all costs of the others' jobs."""
    line = ServedQueue(Caps(capacity=256))
    line.push("s" * 900)
    for tenant in "wxyz":
        line.push(tenant * 60, 100)
    held = line.accounts.of("s")
    held.in_flight = 256  # its endpoint is slow
    line.serve(40)
    held.in_flight = 0

    line.push("q")
    served = line.serve(20)

    assert "q" in served
    rows = groupby(served[: served.index("q")])
    assert max((len(list(row)) for _, row in rows), default=0) <= MAX_CONSECUTIVE


def test_a_heavy_tenant_is_not_capped_below_what_it_earns() -> None:
    """S1-16: with weights 1:2:4 the heaviest may hold more than a quarter."""
    line = ServedQueue(Caps(capacity=100), WEIGHTS)
    for tenant in WEIGHTS:
        line.push(tenant * 100)

    held = Counter(job.tenant for job in (line.pop() for _ in range(84)) if job)

    assert held == {"a": 12, "b": 24, "c": 48}


def test_standings_contain_waiting_rounds_and_row() -> None:
    """S1-9: waiting jobs, rounds without service and jobs in a row, reported for each tenant that waits."""
    line = ServedQueue()
    line.push("aaaabb")
    line.push("w", 6)
    assert line.queue.standings() == {"a": (4, 0, 0), "b": (2, 0, 0), "w": (1, 0, 0)}

    assert line.serve(4) == "abwa"
    line.push("ww")

    assert line.queue.standings() == {"a": (2, 0, 1), "b": (1, 1, 0), "w": (2, 0, 0)}
    assert line.serve(3) == "baa"
    assert line.queue.standings()["w"] == (2, 2, 0)


def test_standings_of_two_queues_are_one() -> None:
    """S1-9: jobs add up, the longer wait and the longer batch count."""
    assert Standing(2, 3, 0).beside(Standing(1, 0, 2)) == Standing(3, 3, 2)


def test_one_tenant_alone_gets_everything_in_order() -> None:
    """S1-8: the limit binds only while another waits."""
    line = ServedQueue()
    line.push("o" * 10)

    assert [job.number for job in iter(line.pop, None)] == list(range(10))


def test_an_empty_queue_gives_nothing() -> None:
    """There is no job to take."""
    assert FairQueue[Work](Accounts(Caps())).pop() is None


def test_a_turn_has_at_least_one_job() -> None:
    """S1-8: a limit of zero would serve no tenant."""
    with pytest.raises(ValueError, match="at least one"):
        FairQueue(Accounts(Caps()), max_consecutive=0)


def test_tenants_long_gone_are_forgotten() -> None:
    """Memory follows the tenants that have work; a tenant that owes or runs is remembered."""
    line = ServedQueue()
    for number in range(5000):
        job = Work(f"t{number}")
        line.queue.push(job)
        popped = line.queue.pop()
        assert popped is job
        line.accounts.ended(job)
    running = Work("runs")
    line.queue.push(running)
    line.queue.pop()
    for number in range(5000):
        line.push(chr(0x4E00 + number))
        line.serve(1)

    assert len(line.queue._tenants) < 500
    assert len(line.accounts._known) < 800
    assert line.accounts.held() == {"runs": 1}


def test_a_decision_takes_logarithmic_time() -> None:
    """O(log n): comparisons per decision with 4,096 tenants stay near their logarithm."""
    compared = 0

    class Counted(float):
        def __lt__(self, other: float) -> bool:
            nonlocal compared
            compared += 1
            return float(self) < float(other)

    line = ServedQueue()
    for number in range(4096):
        line.push(chr(0x4E00 + number) * 3)
    line.queue._heap[:] = [(Counted(tag), order, each) for tag, order, each in line.queue._heap]

    line.serve(500)

    assert compared / 500 <= 4 * log2(4096)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), max_size=100), st.booleans())
def test_taking_out_leaves_the_rest_in_order(pushes: list[tuple[int, str]], odd: bool) -> None:
    """Jobs of a dead channel are taken out of all shares; the others are served as if alone."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.3, 0.2), Accounts(Caps()))
    for number, (share, tenant) in enumerate(pushes):
        scheduler.push(share, Work(tenant, number))

    taken = scheduler.take_out(lambda job: job.number % 2 == odd)

    assert sorted(job.number for job in taken) == [n for n in range(len(pushes)) if n % 2 == odd]
    assert scheduler.length == len(pushes) - len(taken)
    left = [*iter(scheduler.pop, None)]
    assert sorted(job.number for job in left) == [n for n in range(len(pushes)) if n % 2 != odd]
    for tenant in "ab":
        for share in range(3):
            line = [job.number for job in left if (share, tenant) == pushes[job.number]]
            assert line == sorted(line)
    assert scheduler.length == 0
    assert scheduler.pop() is None


def test_the_newest_are_taken_from_the_end() -> None:
    """The end of the queue moves to a spill queue; some jobs stay, so that nothing runs dry."""
    scheduler: Scheduler[Work] = Scheduler((1.0,), Accounts(Caps()))
    for number in range(10):
        scheduler.push(0, Work("a", number))

    assert [job.number for job in scheduler.take_last(0, "a", 4, 3)] == [9, 8, 7]
    assert [job.number for job in scheduler.take_last(0, "a", 4, 30)] == [6, 5, 4]
    assert scheduler.take_last(0, "a", 4, 30) == scheduler.take_last(0, "nobody", 4, 30) == []
    assert [job.number for job in iter(scheduler.pop, None)] == [0, 1, 2, 3]
