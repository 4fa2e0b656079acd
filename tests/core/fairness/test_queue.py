"""The fair queue: who is next, what it costs, who may hold how much; and the shares above it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import MAX_CONSECUTIVE, FairQueue, Standing, priority_after
from consumer.core.fairness.scheduler import Scheduler
from tests.support.data import DATA

ROWS: list[dict[str, int]] = json.loads((DATA / "priority.json").read_text())
#: A tenant to push for, or None to pop.
steps = st.lists(st.one_of(st.sampled_from("aaabcd"), st.none()), max_size=200)
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0}


@dataclass(slots=True, eq=False)
class Work:
    """A job of a tenant; *deliveries* is what it turns out to cost."""

    tenant: str
    number: int = 0
    deliveries: int = 1
    cost: int = 1

    def charge(self, deliveries: int) -> None:
        """Set the cost."""
        self.cost = deliveries


class Line:
    """A fair queue between a test that pushes and one that pops."""

    def __init__(self, caps: Caps | None = None, weights: Mapping[str, float] | None = None) -> None:
        known = {} if weights is None else weights
        self.accounts = Accounts(Caps() if caps is None else caps, lambda tenant: known.get(tenant, 1.0))
        self.queue: FairQueue[Work] = FairQueue(self.accounts)

    def push(self, tenants: str, deliveries: int = 1) -> None:
        """Add a job for each letter."""
        for number, tenant in enumerate(tenants):
            self.queue.push(Work(tenant, number, deliveries))

    def pop(self, *, scarce: bool = False) -> Work | None:
        """Take the next one, and learn what it costs as the fan-out does."""
        job = self.queue.pop(scarce=scarce)
        if job is not None and job.cost != job.deliveries:
            self.queue.recost(job, job.deliveries)
        return job

    def serve(self, count: int) -> str:
        """Serve *count* jobs to their end; return whose they were."""
        served = ""
        for _ in range(count):
            job = self.pop()
            assert job is not None
            self.accounts.ended(job)
            served += job.tenant
        return served


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
        assert len(queue) == sum(map(len, model.values()))
        assert all(queue.waiting_by_tenant().get(t, 0) == len(model[t]) for t in "abcd")
    assert len([*iter(queue.pop, None)]) == sum(map(len, model.values()))
    assert len(queue) == 0


@given(st.lists(st.integers(1, 20), min_size=2, max_size=8), st.integers(20, 300))
def test_equal_tenants_with_work_get_equal_service(costs: list[int], served: int) -> None:
    """Backlogged tenants of one weight never differ by more than one batch and one cost."""
    line = Line()
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
def test_nobody_starves_whatever_the_weights(weights: dict[str, float]) -> None:
    """Everybody with work is served within a round of all the others, however long the flood."""
    line = Line(weights=weights)
    for tenant in weights:
        line.push(tenant * 400)
    bound = 2 * (sum(weights.values()) / min(weights.values()) + len(weights))

    served = line.serve(400)

    for tenant in weights:
        gaps = [len(gap) for gap in served.split(tenant)]
        assert max(gaps) <= bound, (tenant, served)


def test_weights_share_out_deliveries() -> None:
    """S1-16: 1:2:4, exact to a batch, and no more than three in a row."""
    line = Line(weights=WEIGHTS)
    for tenant in WEIGHTS:
        line.push(tenant * 7000)

    served = line.serve(7000)

    counts = Counter(served)
    assert [counts[tenant] for tenant in "abc"] == pytest.approx([1000, 2000, 4000], abs=4)
    assert max(len(list(group)) for _, group in groupby(served)) <= MAX_CONSECUTIVE


def test_fan_out_is_paid_for() -> None:
    """Deliveries count, not jobs: who fans out to 20 starts one job for 20 of the other."""
    line = Line()
    line.push("w" * 100, 20)
    line.push("n" * 2000)

    counts = Counter(line.serve(1050))

    assert counts["n"] == pytest.approx(20 * counts["w"], abs=60)


def test_a_large_weight_is_worth_more_than_the_limit() -> None:
    """S1-16: the limit is for who has the same claim: 1:9 between two tenants is 1:9."""
    line = Line(weights={"a": 9.0})
    line.push("a" * 900 + "b" * 300)

    assert Counter(line.serve(500))["b"] == pytest.approx(50, abs=3)


def test_a_quiet_tenant_goes_before_the_flood() -> None:
    """Fault 71: behind a flood, the quiet one is next or next but one, every time that it comes."""
    line = Line()
    line.push("f" * 1000)
    line.serve(100)
    for _ in range(20):
        line.push("q")
        assert "q" in line.serve(2)
        line.serve(10)


def test_who_was_served_ahead_pays_back_even_after_a_pause() -> None:
    """An empty queue is no way out of what a job of 20 deliveries cost."""
    line = Line()
    line.push("n" * 100)
    line.push("w", 20)
    line.serve(3)

    line.push("w", 20)

    assert "w" not in line.serve(15)
    assert "w" in line.serve(10)


def test_over_its_cap_a_tenant_lets_others_pass_and_borrows_what_nobody_wants() -> None:
    """A quarter of the capacity while others wait, nine tenths when they do not, the rest for them."""
    line = Line(Caps(capacity=100))
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
    line = Line(Caps(capacity=100))
    line.push("a" * 60)
    for _ in range(30):
        assert line.pop() is not None

    line.push("bcdefgh" * 10)
    served = "".join(job.tenant for job in (line.pop() for _ in range(66)) if job)

    assert "a" not in served[:20]
    assert 1 <= served.count("a") <= 3


def test_who_was_held_up_by_its_cap_has_no_more_than_its_turn_after_that() -> None:
    """S1-8: three in a row, however long it was passed over and whatever the others' jobs cost."""
    line = Line(Caps(capacity=256))
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
    line = Line(Caps(capacity=100), WEIGHTS)
    for tenant in WEIGHTS:
        line.push(tenant * 100)

    held = Counter(job.tenant for job in (line.pop() for _ in range(84)) if job)

    assert held == {"a": 12, "b": 24, "c": 48}


def test_standings_tell_waiting_rounds_and_row() -> None:
    """S1-9: waiting jobs, rounds without service and jobs in a row, told for each tenant that waits."""
    line = Line()
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
    line = Line()
    line.push("o" * 10)

    assert [job.number for job in iter(line.pop, None)] == list(range(10))


def test_an_empty_queue_gives_nothing() -> None:
    """There is no job to take."""
    assert FairQueue[Work]().pop() is None


def test_a_turn_has_at_least_one_job() -> None:
    """S1-8: a limit of zero would serve nobody."""
    with pytest.raises(ValueError, match="at least one"):
        FairQueue(max_consecutive=0)


def test_tenants_long_gone_are_forgotten() -> None:
    """Memory follows who has work, not who ever had; who owes or runs is remembered."""
    line = Line()
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

    line = Line()
    for number in range(4096):
        line.push(chr(0x4E00 + number) * 3)
    line.queue._heap[:] = [(Counted(tag), order, each) for tag, order, each in line.queue._heap]

    line.serve(500)

    assert compared / 500 <= 4 * log2(4096)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), max_size=100), st.booleans())
def test_taking_out_leaves_the_rest_in_order(pushes: list[tuple[int, str]], odd: bool) -> None:
    """What a dead channel brought is taken out of all shares; the others are served as if alone."""
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
    """What moves to a spill queue is the end of the line; some stay, so that nothing runs dry."""
    scheduler: Scheduler[Work] = Scheduler((1.0,), Accounts(Caps()))
    for number in range(10):
        scheduler.push(0, Work("a", number))

    assert [job.number for job in scheduler.take_last(0, "a", 4, 3)] == [9, 8, 7]
    assert [job.number for job in scheduler.take_last(0, "a", 4, 30)] == [6, 5, 4]
    assert scheduler.take_last(0, "a", 4, 30) == scheduler.take_last(0, "nobody", 4, 30) == []
    assert [job.number for job in iter(scheduler.pop, None)] == [0, 1, 2, 3]


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
    """Work conservation over shares: only who may start is asked."""
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
    """Work conservation: whatever each tenant holds, a free slot is given to somebody who waits."""
    line = Line(Caps(capacity=capacity), WEIGHTS)
    running: list[Work] = []
    for step in steps:
        if step == "end" and running:
            line.accounts.ended(running.pop(0))
        elif step == "pop":
            waiting = len(line.queue)
            job = line.pop()
            assert (job is not None) == (waiting > 0)
            if job is not None:
                running.append(job)
        elif len(step) == 1:
            line.push(step)


@given(st.integers(1, 500), st.integers(1, 60))
def test_who_was_alone_owes_nothing_for_it(alone: int, beside: int) -> None:
    """What nobody else wanted was free: from the moment on at which another comes, both get the same."""
    line = Line()
    line.push("a" * (alone + 2 * beside))
    line.serve(alone)
    line.push("b" * beside)

    served = Counter(line.serve(2 * beside))

    assert served["b"] == pytest.approx(beside, abs=MAX_CONSECUTIVE)


def test_a_share_that_was_alone_owes_nothing_for_it() -> None:
    """Between shares as between tenants; and what another owed before, it still owes."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.5), Accounts(Caps()))
    for number in range(300):
        scheduler.push(0, Work("a", number))
    for _ in range(100):
        scheduler.pop()
    for number in range(100):
        scheduler.push(1, Work("b", number))

    served = [job.tenant for job in (scheduler.pop() for _ in range(100)) if job]

    assert Counter(served) == {"a": 50, "b": 50}


def test_what_is_got_so_far_is_told_over_the_weight() -> None:
    """Deliveries that ended, by tenant: what evenness is taken from."""
    line = Line(weights=WEIGHTS)
    line.push("a" * 3 + "c" * 8)
    line.push("b", 20)

    line.serve(12)

    assert line.accounts.done() == {"a": 3.0, "b": 10.0, "c": 2.0}
    assert line.queue.started() == {"a": 3, "b": 1, "c": 8}


def test_what_a_share_owed_is_forgiven_while_it_was_alone() -> None:
    """A wide job is paid back to who waits, not to who comes later."""
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
    """Fault 71: a new tenant with each message: who has waited has its turn in four rounds, each time."""
    line = Line()
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


def test_what_is_remembered_is_bounded_while_new_tenants_keep_coming() -> None:
    """A name for each event, without a pause: lines and accounts follow what waits."""
    line = Line()
    for number in range(20_000):
        line.queue.push(Work(f"new-{number}"))
        if number >= 50:
            serve_names(line, 1)

    assert len(line.queue._tenants) < 1_000
    assert len(line.accounts._known) < 1_000


def serve_names(line: Line, count: int) -> list[str]:
    """Serve *count* jobs to their end; return whose they were."""
    jobs = [line.pop() for _ in range(count)]
    for job in jobs:
        assert job is not None
        line.accounts.ended(job)
    return [job.tenant for job in jobs if job is not None]
