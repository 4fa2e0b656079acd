"""The costs of observing: the goals, and each race in small against a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.observe import observability_cost, otel_cost
from bench.prove import Bench, Proof, run_proof
from bench.prove_observe import PROOFS
from consumer.edges.private_broker import BrokerEndpoint

TABLE = {"otel_cost": ("≥ 0.75", 60_000), "observability_cost": ("≥ 0.9", 60_000)}


def test_the_proofs_have_the_promised_goals() -> None:
    """The ratio, and the deliveries of a side in a pair, on average."""
    goals = {goal.name: goal for proof in PROOFS for goal in proof.goals}

    assert {name: (goals[name].text, goals[name].n) for name in TABLE} == TABLE


@pytest.mark.parametrize("proof", [otel_cost.PROOF, observability_cost.PROOF], ids=lambda proof: proof.name)
async def test_each_race_runs(proof: Proof, vhost: str, broker: BrokerEndpoint, tmp_path: Path) -> None:
    """In small; the figure is short, and so never ok. Every span of the count arrives."""
    scheme, rest = broker.management_url.split("://")
    url = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(folder=tmp_path / "proof", scale=0.002, amqp_url=vhost, management_url=url)

    [figure] = await run_proof(proof, bench)

    assert figure.value is not None
    assert not figure.ok
    assert bench.notes.get("otel_spans_missing", 0) == 0
    assert f"{proof.name}_error" not in bench.notes
