"""The proofs of the closed loop: their goals and their arithmetic; no cluster is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.loop.cluster_faults import SCHEDULE_S, stalled_s, unexplained
from bench.loop.missing import rung_queue, shown_in_metrics
from bench.loop.quorum import requests_of
from bench.loop.steady import overlap_s
from bench.loop.stuck_queue import OTHER_S, delays_s
from bench.prove_loop import PROOFS
from bench.sink import Seen
from tests.bench.support.seen import answered
from tests.support.cluster.node import FREE

TABLE = {
    "cluster_lost": ("0", 8),
    "cluster_doubled_unexplained": ("0", 8),
    "cluster_stalled_s": ("≤ 90", 8),
    "quorum_requests_over": ("≤ 1", 200),
    "stuck_queue_others_p99_ms": ("≤ 500", 1_000),
    "missing_seen_s": ("≤ TTL + 90", 3),
    "beat_ms": ("≤ 10", 10),
    "broker_back_first_delivery_s": ("≤ 2", 5),
    "idle_quorum_seen_s": ("≤ 15", 3),
}


def seen(began: float, status: int = 200, path: str = "flaky") -> Seen:
    """Return one request that was answered after 10 ms."""
    return answered(began, path=path, status=status)


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure is measured against its goal and over no fewer cases."""
    assert {goal.name: (goal.text, goal.n) for proof in PROOFS for goal in proof.goals} == TABLE


def test_a_second_success_is_unexplained_on_a_quiet_cluster() -> None:
    """One success is the delivery itself; a further one needs a reason."""
    assert unexplained([seen(10)], 1, []) == 0
    assert unexplained([seen(10), seen(20)], 1, []) == 1


def test_a_repeated_publish_or_a_fault_explains_a_second_success() -> None:
    """The publisher sent the event twice, or a request was unsettled when a channel closed."""
    assert unexplained([seen(10), seen(20)], 2, []) == 0
    assert unexplained([seen(10), seen(20)], 1, [(9, 12)]) == 0
    assert unexplained([seen(10), seen(40)], 1, [(20, 30)]) == 1


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=8))
def test_without_a_fault_all_but_one_success_are_unexplained(times: Sequence[float]) -> None:
    """Failures never count, and no success is explained twice."""
    chain = [seen(at) for at in times] + [seen(at, 503) for at in times]
    assert unexplained(chain, 1, []) == len(times) - 1


def test_a_chain_is_stalled_from_its_due_time_until_the_next_request() -> None:
    """The wait that the schedule wants does not count, and neither does a time without a quorum."""
    retried = [seen(100, 503), seen(100.01 + SCHEDULE_S[0] + 40)]

    assert round(stalled_s(retried, 99.5, []), 6) == 40
    assert round(stalled_s(retried, 99.5, [(105, 125)]), 6) == 20
    assert stalled_s([seen(107)], 100, []) == 7


def test_what_follows_a_success_is_no_stall() -> None:
    """A second copy that comes much later is a double delivery, and never a late one."""
    assert stalled_s([seen(100), seen(900)], 100, []) == 0


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_an_overlap_is_within_both_spans(a: float, b: float, c: float, d: float) -> None:
    """It is never negative and never longer than either span."""
    (start, end), (first, last) = sorted((a, b)), sorted((c, d))
    assert 0 <= overlap_s(start, end, [(first, last)]) <= min(end - start, last - first)


def test_only_deliveries_that_were_due_meanwhile_are_timed() -> None:
    """A delivery that was due before or after the stop says nothing about it."""
    requests = [
        seen(50.2, path="healthy"),
        seen(50.1, 503, "other"),
        seen(50.11 + OTHER_S + 0.3, path="other"),
    ]

    found = sorted(round(delay, 3) for delay in delays_s(requests, {"e": 50.0}, (49.0, 60.0)))

    assert found == [0.1, 0.2, 0.3]
    assert delays_s(requests, {"e": 50.0}, (60.0, 70.0)) == []


def test_a_delivery_that_never_came_is_late() -> None:
    """It must not improve the figure by its absence."""
    assert min(delays_s([], {"e": 50.0}, (49.0, 60.0))) > 10


def test_requests_are_counted_by_event() -> None:
    """Three requests of one event are three."""
    assert requests_of([seen(1, 503), seen(2, 503), seen(3)]) == {"e": 3}


def test_a_scrape_shows_a_queue_only_above_zero() -> None:
    """Neither a zero nor another queue counts."""
    series = 'leveret_queue_overdue_messages{queue="leveret.wait.4000"}'

    assert rung_queue(4.0) == "leveret.wait.4000"
    assert shown_in_metrics(f"# HELP x\n{series} 3.0\n", "leveret.wait.4000")
    assert not shown_in_metrics(f"{series} 0.0\n", "leveret.wait.4000")
    assert not shown_in_metrics(f"{series} 3.0\n", "leveret.wait.400")


def test_the_cure_runs_one_command_and_reports_its_failure(tmp_path: Path) -> None:
    """An operator's timer must see a failure; the expression reaches rabbitmqctl as one argument."""
    fake = tmp_path / "rabbitmqctl"
    fake.write_text('#!/bin/sh\necho "$#" "$1" "$2" > "$0.seen"\nexit "${FAKE_EXIT:-0}"\n')
    fake.chmod(0o700)
    env = {**os.environ, "RABBITMQCTL": str(fake)}

    codes = [
        subprocess.run(["sh", str(FREE)], env={**env, "FAKE_EXIT": code}, check=False).returncode
        for code in ("0", "3")
    ]

    assert codes == [0, 3]
    assert fake.with_suffix(".seen").read_text() == "3 --quiet eval\n"
