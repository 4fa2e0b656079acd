"""The proofs of loss: what they promise."""

from __future__ import annotations

from bench.prove_loss import PROOFS

ISSUE_TABLE = {
    "clock_late_s": ("≤ 5", "s", 8),
    "clock_parked": ("0", "entries", 8),
}


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal, over as many cases (issue 10)."""
    found = {goal.name: (goal.text, goal.unit, goal.n) for proof in PROOFS for goal in proof.goals}

    assert found == ISSUE_TABLE
