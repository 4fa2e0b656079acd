"""The proofs of loss: what they promise."""

from __future__ import annotations

from bench.prove_loss import PROOFS

ISSUE_TABLE = {
    "destroyed_unasked": ("0", 6),
}


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure of the table is measured, against its goal and over no fewer cases."""
    assert {goal.name: (goal.text, goal.n) for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE
