"""The proof of the ten troubles: its reading of overview and runbook, and one trouble in small."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.observe.troubles import proof
from bench.observe.troubles.cases import troubles
from bench.observe.troubles.overview import naming
from bench.observe.troubles.runbook import FOLLOWS, chosen, filled, run, section
from bench.observe.troubles.trouble import Take, Trouble
from bench.prove import Bench, run_proof
from bench.prove_observe import PROOFS
from consumer.edges.private_broker import BrokerEndpoint
from tests.support.processes.children import python_env
from tests.support.repository.grafana_files import alert_rules
from tests.support.system.waiting import until

PAGE = """# Runbook

## One thing

Look at `leveret status` first.

```sh
leveret breaker list          # all of them
leveret subscriptions export |
    jq . > file
```

| cause | do |
|---|---|
| `dns`, `tls` | its owner; then `leveret breaker reset acme/shop` |

1. `leveret pause --tenant acme`, later `leveret resume --tenant acme`.

## Another thing

1. Nothing.
"""
RULES: Mapping[str, Mapping[str, Any]] = {rule["alert"]: rule for rule in alert_rules()}


class Answers:
    """A Prometheus that answers a query by the samples of the first series in it."""

    def __init__(self, **samples: Sequence[tuple[Mapping[str, str], float]]) -> None:
        self._samples = samples

    def samples(self, promql: str) -> Sequence[tuple[Mapping[str, str], float]]:
        """Return them."""
        series = re.search(r"\w+(?=\{)", promql)
        return self._samples.get(series[0], []) if series else []


def test_the_proof_has_the_promised_goals() -> None:
    """Ten troubles with names and culprits of their own, and no miss."""
    goals = {goal.name: (goal.text, goal.n) for each in PROOFS for goal in each.goals}

    assert goals["cause_not_named"] == goals["troubles_unalerted"] == ("0", 10)
    assert len({each.name for each in troubles()}) == 10
    customers = [customer.tenant for each in troubles() for customer in each.customers]
    assert len(customers) == len(set(customers))


@pytest.mark.parametrize("trouble", troubles(), ids=lambda each: each.name)
def test_the_runbook_has_every_line_that_a_trouble_follows(trouble: Trouble) -> None:
    """The section of the alert exists, with those commands, and with a row for the cause."""
    lines = section(RULES[trouble.alert]["annotations"]["runbook_url"].rpartition("#")[2])

    for step in trouble.steps:
        if isinstance(step, Take):
            assert chosen(lines, step.label, step.start)
    if trouble.alert_cause:
        assert any(trouble.cause in line.labels for line in lines)


def test_the_commands_of_a_section_are_read() -> None:
    """Blocks without their comments, continued lines as one, rows by the codes of their cell, steps."""
    lines = section("one-thing", PAGE)

    exported = "leveret subscriptions export | jq . > file"
    assert chosen(lines, "block 1") == ["leveret breaker list", exported]
    assert chosen(lines, "tls") == chosen(lines, "dns") == ["leveret breaker reset acme/shop"]
    assert chosen(lines, "1.", "leveret resume") == ["leveret resume --tenant acme"]
    for label, start in (("2.", ""), ("block 1", "leveret pause")):
        with pytest.raises(LookupError, match="the section has no line"):
            chosen(lines, label, start)
    with pytest.raises(LookupError, match="the runbook has no section"):
        section("no-thing", PAGE)


def test_the_names_of_the_alert_are_filled_in() -> None:
    """The examples of the runbook give way to the labels."""
    both = filled('leveret x acme/shop --tenant acme "shop" acme.json', {"subscription": "well/till"})

    assert both == 'leveret x well/till --tenant well "till" well.json'
    assert filled("leveret pause --tenant acme", {"tenant": "t1"}) == "leveret pause --tenant t1"
    assert filled("grep leveret.wait.2000", {"queue": "leveret.due.01"}) == "grep leveret.due.01"


async def test_a_command_runs_in_a_shell(tmp_path: Path) -> None:
    """A failing part of a pipe fails it; a command that follows is ended by Ctrl-C."""
    done = await run("echo one | grep two | cat", python_env(), tmp_path)
    assert (done.code, done.output) == (1, "")

    (tmp_path / "leveret").write_text("#!/bin/sh\ntrap 'exit 0' INT\necho on\nwhile :; do sleep 0.1; done\n")
    (tmp_path / "leveret").chmod(0o755)
    environment = {**python_env(), "PATH": f"{tmp_path}:{python_env()['PATH']}"}
    followed = await run(FOLLOWS, environment, tmp_path, follow_s=0.5)
    assert (followed.code, followed.output) == (0, "on\n")


async def test_a_command_ends_with_its_run(tmp_path: Path) -> None:
    """An interrupted proof leaves no program behind, though each has a session of its own."""
    file = tmp_path / "pid"
    running = asyncio.create_task(run("echo $$ > pid; while :; do sleep 0.1; done", python_env(), tmp_path))
    await until(lambda: file.exists() and file.read_text().endswith("\n"))

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    await until(lambda: not Path("/proc", file.read_text().strip()).exists(), "its end")


def test_a_row_names_a_culprit_only_in_a_colour_of_trouble() -> None:
    """A table with thresholds needs an alarming cell; one without shows the sick alone."""

    def named(culprit: str, cause: str = "", **samples: Sequence[tuple[Mapping[str, str], float]]) -> str:
        found = naming(Answers(**samples), culprit, cause)  # type: ignore[arg-type]  # it has the one method
        return "" if found is None else f"{found.panel}: {found.column}"

    sick = {"subscription": "a/b", "cause": "dns"}
    table = "Sick subscriptions and their cause: trouble"
    assert named("a/b", leveret_subscription_trouble=[(sick, 0.9)]) == table
    assert named("a/c", leveret_subscription_trouble=[(sick, 0.9)]) == ""
    assert named("a/b", "dns", leveret_subscription_trouble=[(sick, 0.9)]) == table
    assert named("a/b", "tls", leveret_subscription_trouble=[(sick, 0.9)]) == ""
    slow = [({"subscription": "a/b"}, 20.0)]
    assert named("a/b", leveret_subscription_latency_seconds=slow) == table.replace("trouble", "p95")
    assert named("a/b", "slow", leveret_subscription_latency_seconds=slow) == ""
    node = {"rabbitmq_node": "rabbit@one", "instance": "i"}
    for share, panel in ((0.5, ""), (0.95, "Nodes of the broker: memory of limit")):
        assert named("rabbit@one", rabbitmq_process_resident_memory_bytes=[(node, share)]) == panel
    rerouted = {"tenant": "t", "why": "rerouted"}
    assert named("t", leveret_tenant_rerouted=[(rerouted, 1)]).startswith("Rerouted or starved tenants")


@pytest.mark.timeout(120)
async def test_one_trouble_in_small(tmp_path: Path, vhost: str, broker: BrokerEndpoint) -> None:
    """A noisy tenant is named, alerts, and is well again after the commands of the runbook."""
    scheme, rest = broker.management_url.split("://")
    url = f"{scheme}://{broker.user}:{broker.password}@{rest}"
    bench = Bench(
        folder=tmp_path / "run", scale=0.02, cases=["noisy_tenant"], amqp_url=vhost, management_url=url
    )

    figures = await run_proof(proof.PROOF, bench)

    assert [(figure.name, figure.value, figure.n) for figure in figures] == [
        ("cause_not_named", 0, 1),
        ("troubles_unalerted", 0, 1),
    ], bench.notes
    assert not any(figure.ok for figure in figures)
