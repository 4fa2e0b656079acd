"""The proofs of what strangers can do: what they promise, and their own arithmetic."""

from __future__ import annotations

from bench.hostile.answers import KINDS
from bench.hostile.servers import CLIENTS, wanted, wanted_outcomes
from bench.prove_hostile import PROOFS
from consumer.core.model import Kind

ISSUE_TABLE = {
    "forged_accepted": "0",
    "servers_short": "0",
    "stalled_log_delivered_ratio": "≥ 0.9",
}


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal."""
    assert {goal.name: goal.text for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE


def test_there_are_enough_kinds_of_answers() -> None:
    """At least 20 for each sender, each with a name and an outcome that exists."""
    assert len(KINDS) * len(CLIENTS) >= 40
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.outcome for kind in KINDS} <= {kind.value for kind in Kind}
    assert {sum(wanted(kind).values()) for kind in KINDS} == {2, 3}
    assert wanted_outcomes(KINDS).total() == sum(sum(wanted(kind).values()) for kind in KINDS)
