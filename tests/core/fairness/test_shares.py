"""The shares above the fair queue: each gets its part, owes nothing for time alone, and stays bounded."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import MAX_CONSECUTIVE
from consumer.core.fairness.scheduler import Scheduler
from tests.support.builders.fair_queue import WEIGHTS, ServedQueue, Work, serve_names


def test_each_share_has_its_part_while_it_has_work() -> None:
    """Minimum shares: 5:3:2 by deliveries while all wait; alone, each has everything."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.3, 0.2), Accounts(Caps()))
    for share in range(3):
        for number in range(2000):
            scheduler.push(share, Work("abc"[share], number))

    first = Counter(job.tenant for job in (scheduler.pop() for _ in range(2000)) if job)
    rest = [job.tenant for job in iter(scheduler.pop, None)]

    assert [first[t] for t in "abc"] == pytest.approx([1000, 600, 400], abs=3)
    assert Counter(rest) == {"a": 1000, "b": 1400, "c": 1600}
    assert set(rest[-500:]) == {"c"}


def test_a_share_that_comes_late_has_no_claim_on_the_past() -> None:
    """A storm of retries after a quiet hour gets its part from now on, not the hour's."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.5), Accounts(Caps()))
    for number in range(1100):
        scheduler.push(0, Work("a", number))
    for _ in range(1000):
        scheduler.pop()
    for number in range(100):
        scheduler.push(1, Work("b", number))

    served = [job.tenant for job in (scheduler.pop() for _ in range(20)) if job]

    assert Counter(served) == {"a": 10, "b": 10}


def test_a_share_whose_tenants_are_over_their_caps_leaves_the_slots_to_the_next() -> None:
    """Work conservation over shares: only tenants that may start are asked."""
    scheduler: Scheduler[Work] = Scheduler((0.9, 0.1), Accounts(Caps(capacity=10)))
    for number in range(20):
        scheduler.push(0, Work("a", number))
    for _ in range(9):
        scheduler.pop()
    scheduler.push(1, Work("b"))

    job = scheduler.pop(scarce=True)

    assert job is not None
    assert job.tenant == "b"
    assert scheduler.pop(scarce=True) is None


def test_the_cost_of_a_job_is_charged_to_its_share_too() -> None:
    """Deliveries count between shares as they do between tenants."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.5), Accounts(Caps()))
    for number in range(400):
        scheduler.push(0, Work("a", number, 20))
        scheduler.push(1, Work("b", number))
    counts: Counter[str] = Counter()

    for _ in range(210):
        job = scheduler.pop()
        assert job is not None
        counts[job.tenant] += 1
        if job.cost != job.deliveries:
            scheduler.recost(0, job, job.deliveries)

    assert counts["b"] == pytest.approx(20 * counts["a"], abs=40)


@given(
    st.lists(st.one_of(st.sampled_from("aaabcd"), st.sampled_from(["pop", "end"])), max_size=200),
    st.integers(1, 12),
)
def test_no_slot_stays_idle_while_there_is_work(steps: list[str], capacity: int) -> None:
    """Work conservation: a free slot always goes to a tenant that waits, for all slots in use."""
    line = ServedQueue(Caps(capacity=capacity), WEIGHTS)
    running: list[Work] = []
    for step in steps:
        if step == "end" and running:
            line.accounts.ended(running.pop(0))
        elif step == "pop":
            waiting = line.queue.length
            job = line.pop()
            assert (job is not None) == (waiting > 0)
            if job is not None:
                running.append(job)
        elif len(step) == 1:
            line.push(step)


@given(st.integers(1, 500), st.integers(1, 60))
def test_a_tenant_that_was_alone_owes_nothing_for_it(alone: int, beside: int) -> None:
    """Slots that no other tenant wanted were free: once another comes, both get the same."""
    line = ServedQueue()
    line.push("a" * (alone + 2 * beside))
    line.serve(alone)
    line.push("b" * beside)

    served = Counter(line.serve(2 * beside))

    assert served["b"] == pytest.approx(beside, abs=MAX_CONSECUTIVE)


def test_a_share_that_was_alone_owes_nothing_for_it() -> None:
    """Between shares as between tenants; an earlier debt of another tenant stays."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.5), Accounts(Caps()))
    for number in range(300):
        scheduler.push(0, Work("a", number))
    for _ in range(100):
        scheduler.pop()
    for number in range(100):
        scheduler.push(1, Work("b", number))

    served = [job.tenant for job in (scheduler.pop() for _ in range(100)) if job]

    assert Counter(served) == {"a": 50, "b": 50}


def test_deliveries_so_far_are_divided_by_the_weight() -> None:
    """Deliveries that ended, by tenant: evenness is computed from these."""
    line = ServedQueue(weights=WEIGHTS)
    line.push("a" * 3 + "c" * 8)
    line.push("b", 20)

    line.serve(12)

    assert line.accounts.done() == {"a": 3.0, "b": 10.0, "c": 2.0}
    assert line.queue.started() == {"a": 3, "b": 1, "c": 8}


def test_the_debt_of_a_share_is_forgiven_while_it_was_alone() -> None:
    """A wide job is paid back to the tenants that wait, not to later ones."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.5), Accounts(Caps()))
    for number in range(300):
        scheduler.push(0, Work("a", number))
    scheduler.push(1, Work("b"))
    first = scheduler.pop()
    assert first is not None
    scheduler.recost(0, first, 100)
    for _ in range(100):
        job = scheduler.pop()
        assert job is not None
        scheduler.recost("ab".index(job.tenant), job, 1)
    for number in range(100):
        scheduler.push(1, Work("b", number))

    served = [job.tenant for job in (scheduler.pop() for _ in range(20)) if job]

    assert Counter(served) == {"a": 10, "b": 10}


def test_nobody_waits_for_ever_while_new_tenants_keep_coming() -> None:
    """Fault 71: a new tenant with each message: a waiting tenant is served within four rounds, each time."""
    line = ServedQueue()
    line.push("b" * 50)
    names = iter(range(100_000))

    def come(count: int) -> None:
        for _ in range(count):
            line.queue.push(Work(f"new-{next(names)}"))

    come(20)
    gaps, since = [], 0
    while "b" in line.queue.waiting_by_tenant():
        [served] = serve_names(line, 1)
        come(served != "b")
        since += 1
        if served == "b":
            gaps.append(since)
            since = 0
        assert since <= 4 * 21, "b starves"
    assert len(gaps) == 50


def test_memory_is_bounded_while_new_tenants_keep_coming() -> None:
    """A new tenant for each event, without a pause: memory follows the waiting jobs."""
    line = ServedQueue()
    for number in range(20_000):
        line.queue.push(Work(f"new-{number}"))
        if number >= 50:
            serve_names(line, 1)

    assert len(line.queue._tenants) < 1_000
    assert len(line.accounts._known) < 1_000
