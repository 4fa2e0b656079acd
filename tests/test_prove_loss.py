"""The proofs of loss: what they promise, and one of them in small."""

from __future__ import annotations

from pathlib import Path

from bench.broker import Broker
from bench.daemon import Daemon, subscription
from bench.loss.parked_look import Found, Run, batch
from bench.prove import Bench
from bench.prove_loss import PROOFS

ISSUE_TABLE = {
    "parked_look_lost": ("0", 30),
    "parked_look_doubled": ("0", 30),
    "clock_late_s": ("≤ 5", 8),
    "clock_parked": ("0", 8),
    "stranger_store_lost": ("0", 6),
    "unarchived": ("0", 600),
}


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure of the table is measured, against its goal and over no fewer cases."""
    assert {goal.name: (goal.text, goal.n) for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE


async def test_looks_replays_and_purges_lose_nothing_to_a_kill_of_the_broker(tmp_path: Path) -> None:
    """FAULTS 80: the proof in small: whole, and cut by a signal in the middle."""
    bench = Bench(folder=tmp_path, scale=0.2)
    runs = [Run(0, "list", ""), Run(1, "purge", "SIGKILL"), Run(2, "replay", "SIGINT"), Run(3, "replay", "")]

    async with Broker(bench) as broker, Daemon(tmp_path, broker.url) as daemon:
        await daemon.subscribe([subscription("target", "http://127.0.0.1:9/hook")])
        found = await batch(bench, broker, daemon, runs, "kill")

    assert found == [Found(0, 0)] * len(runs)
