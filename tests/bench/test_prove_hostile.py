"""The proofs of hostile input: their goals and their arithmetic."""

from __future__ import annotations

from bench.hostile.innocent import Leg
from bench.hostile.loop import ATTACKS
from bench.hostile.loop_attacks import BODY_BYTES
from bench.hostile.servers import CLIENTS, wanted, wanted_outcomes
from bench.prove_hostile import PROOFS
from consumer.core.model import OutcomeKind
from tests.support.servers.answers import KINDS

ISSUE_TABLE = {
    "handles_attempts_burned": "0",
    "rss_ratio": "≤ 1.1",
    "forged_accepted": "0",
    "clients_short": "0",
    "servers_short": "0",
    "stalled_log_delivered_ratio": "≥ 0.9",
    "innocent_p99_ratio": "≤ 3",
    "loop_block_ms": "≤ 50",
    "innocent_lost": "0",
    "innocent_doubled": "0",
    "innocent_parked": "0",
}


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal."""
    assert {goal.name: goal.text for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE


def test_there_are_enough_kinds_of_answers() -> None:
    """At least 20 for each sender, each with a name and an outcome that exists."""
    assert len(KINDS) * len(CLIENTS) >= 40
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.outcome for kind in KINDS} <= {kind.value for kind in OutcomeKind}
    assert {sum(wanted(kind).values()) for kind in KINDS} == {2, 3}
    assert wanted_outcomes(KINDS).total() == sum(sum(wanted(kind).values()) for kind in KINDS)


def test_attacks_have_names_of_their_own_and_enough_are_of_item_1() -> None:
    """A leg's events are told apart by the attack's name."""
    names = [attack.name for attack in ATTACKS]

    assert len(names) == len(set(names))
    assert sum(attack.item == 1 for attack in ATTACKS) >= 8


def test_what_never_came_makes_the_99th_percentile_infinite() -> None:
    """2 of 100 missing: no figure of the others may hide it."""
    assert Leg("x", 100, 2, [0.01] * 98).p99_ms == float("inf")
    assert Leg("x", 100, 0, [0.01] * 100).p99_ms == 10.0


def test_hostile_bodies_fit_into_the_largest_event() -> None:
    """Else they would be refused for their size alone."""
    assert BODY_BYTES == 262_144
