"""The proof of the doctor: its goals, and every fault that leaves the shared node as it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.observe.doctor import FAULTS, LEAST, PROOF, line_of
from bench.observe.faults import Fault, set_to
from bench.observe.ground import Diagnosis
from bench.prove import Bench, run_proof
from bench.prove_observe import PROOFS
from consumer.core.tools.doctor.finding import Check
from consumer.edges.private_broker import BrokerEndpoint

TABLE = {"doctor_missed": ("0", 15), "conservation_error": ("0", 20_000)}
ROW = {"level": "fault", "check": "home", "subject": "x", "text": "is away", "remedy": "bring it"}
FAULT = Fault(name="x", check="home", words="is away", make=set_to())


def test_the_proofs_have_the_promised_names_goals_and_counts() -> None:
    """Every figure is measured against its goal and over no fewer cases."""
    assert TABLE.items() <= {g.name: (g.text, g.n) for proof in PROOFS for g in proof.goals}.items()


def test_the_faults_are_of_every_kind() -> None:
    """At least fifteen different ones, each check but the version with one, and each with its own name."""
    checks = {fault.check for fault in FAULTS}

    assert len(FAULTS) >= LEAST
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    assert {check.value for check in Check} - checks == {"version"}  # only a foreign server has another one


def test_a_line_names_a_fault_only_with_remedy_level_and_exit_code() -> None:
    """A line of another check, another level, without a remedy, or with exit code 0, counts as missed."""
    assert line_of(FAULT, Diagnosis(1, [ROW], "")) == "x: is away; bring it"
    assert line_of(FAULT, Diagnosis(0, [ROW], "")) is None
    for change in ({"check": "tls"}, {"level": "warning"}, {"remedy": ""}, {"text": "is well"}):
        assert line_of(FAULT, Diagnosis(1, [ROW | change], "")) is None


async def test_the_proof_of_the_doctor_on_a_vhost(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> None:
    """One fault of each check that leaves the node as it is: each is named, and no output has a secret."""
    scheme, rest = broker.management_url.split("://")
    management = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(folder=tmp_path / "run", amqp_url=vhost, management_url=management)

    [figure] = await run_proof(PROOF, bench)

    missed = {name: note for name, note in bench.notes.items() if name.startswith("doctor_missed_")}
    assert missed == {}
    assert bench.notes["doctor_leaks"] == 0
    assert figure.ok, bench.notes
