"""The proofs of loss: their goals, their arithmetic, and one of them in small."""

from __future__ import annotations

from pathlib import Path

from bench.broker import Broker
from bench.loss.hang import CASES, Case, drained
from bench.loss.parked_look import Found, Run, batch
from bench.prove import Bench
from bench.prove_loss import PROOFS
from bench.sink import Seen
from tests.bench.support.seen import answered
from tests.support.processes.daemon import Daemon, subscription

ISSUE_TABLE = {
    "parked_look_lost": ("0", 30),
    "parked_look_doubled": ("0", 30),
    "clock_late_s": ("≤ 5", 8),
    "clock_parked": ("0", 8),
    "hang_drained_s": ("≤ 70", 1_200),
    "hang_parked": ("0", 4_800),
    "hang_peak_ratio": ("≤ 1.5", 4_800),
    "hang_simulated_ratio": ("≤ 1.5", 6),
    "destroyed_unasked": ("0", 6),
    "stranger_store_lost": ("0", 6),
    "unarchived": ("0", 600),
}


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure of the table is measured, against its goal and over no fewer cases."""
    assert {goal.name: (goal.text, goal.n) for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE


async def test_looks_replays_and_purges_lose_nothing_to_a_kill_of_the_broker(tmp_path: Path) -> None:
    """Fault 80: the proof in small: whole, and cut by a signal in the middle."""
    bench = Bench(folder=tmp_path, scale=0.2)
    runs = [
        Run(0, "reindex", ""),
        Run(1, "purge", "SIGKILL"),
        Run(2, "replay", "SIGINT"),
        Run(3, "replay", ""),
    ]

    async with Broker(bench) as broker, Daemon(tmp_path, broker.url) as daemon:
        await daemon.subscribe([subscription("target", "http://127.0.0.1:9/hook")])
        found = await batch(bench, broker, daemon, runs, "kill")

    assert found == [Found(0, 0)] * len(runs)


def seen(webhook_id: str, began: float, status: int = 200) -> Seen:
    """One request, answered after 10 ms."""
    return answered(began, path="hangs2", event=webhook_id, status=status)


def test_an_endpoint_that_came_back_is_judged_by_its_own_requests() -> None:
    """From recovery to the last delivery; the most in a second against slots over 10 ms; what never came."""
    [case] = [case for case in CASES if case.name == "hangs2"]
    requests = [seen("a", 90.0, 0), seen("a", 103.0), *(seen(f"b{n}", 110 + n / 100) for n in range(50))]

    whole, short = drained(requests, case, 100.0, 51), drained(requests, case, 100.0, 60)

    assert (whole.seconds, whole.peak_ratio, whole.missing) == (10.5, 0.25, 0)
    assert (short.seconds, short.missing) == (1e6, 9)


def test_the_endpoints_differ_in_their_illness_and_their_slots() -> None:
    """Two hang, two answer just below the time-out; each pair has 2 and 16 slots."""
    assert {(case.answer_s < 2, case.slots) for case in CASES} == {
        (i, n) for i in (True, False) for n in (2, 16)
    }
    assert Case("slow2", 1.8, 2).target(7.0) == "/lag/slow2?s=1.8,0.01&at=7.000"
