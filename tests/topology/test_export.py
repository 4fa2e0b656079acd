"""Exports: the graph, the permission patterns, and the parsed refusals."""

from __future__ import annotations

import json
import re

import pytest

from topology.export import definitions, inexpressible, mermaid
from topology.permissions import permissions
from topology.plan import Difference, SourceSpec, TopologySpec, build_plan
from topology.wire import parse_refusal

SPEC = TopologySpec(sources=(SourceSpec(name="crm", exchange="crm.events"),))
PLAN = build_plan(SPEC)


def test_definitions_hold_all_that_is_ours() -> None:
    """Definitions contain every exchange, queue and binding of ours, in the given vhost."""
    document = json.loads(json.dumps(definitions(PLAN, "/")))

    assert len(document["queues"]) == len(PLAN.queues)
    assert len(document["bindings"]) == len(PLAN.bindings) - len(inexpressible(PLAN))
    assert {binding.destination for binding in inexpressible(PLAN)} == {
        "leveret.lane.died",
        "leveret.inbox.crm.died",
    }
    assert "crm.events" not in {exchange["name"] for exchange in document["exchanges"]}
    assert all(entry["vhost"] == "/" for part in document.values() for entry in part)
    assert not any("vhost" in entry for part in definitions(PLAN).values() for entry in part)


def test_the_graph_joins_numbered_queues() -> None:
    """The Mermaid graph has one node per family, one edge per kind of binding, and no unknown node."""
    text = mermaid(PLAN)

    assert text.startswith("flowchart LR\n")
    assert "leveret.wait.N<br/>37 queues" in text
    assert "leveret.lane.N<br/>16 queues" in text
    nodes = re.findall(r"^    (n\d+)[\[{]", text, re.MULTILINE)
    edges = re.findall(r'^    (n\d+) (?:-->|-\.->)(?:\|"[^"]+"\|)? (n\d+)$', text, re.MULTILINE)
    assert len(nodes) + len(edges) + 1 == len(text.splitlines())
    assert {end for edge in edges for end in edge} <= set(nodes)
    assert len(edges) == len(set(edges)) + 1  # overflow is bound twice to dlx, by raw and by refused


def test_permissions_are_the_documented_patterns() -> None:
    """The patterns equal the documented ones of `run` and `run --no-declare`, for prefix and sources."""
    declaring = permissions(SPEC, declare=True)
    reading = permissions(SPEC, declare=False)

    assert (declaring.configure, declaring.write) == (r"^(leveret\..+)$", r"^(leveret\..+)$")
    assert declaring.read == r"^(leveret\..+|crm\.events)$"
    assert reading.configure == "^$"
    written = ("events", "wait", "due", "dlx", "control", "ops", "store")
    names = "|".join(rf"leveret\.{name}" for name in (*written, r"wait\..+"))
    assert reading.write == f"^({names})$"
    assert not re.search(reading.write, "leveret.lanes")
    for queue in PLAN.queues:
        is_rung = queue.name.startswith("leveret.wait.")
        assert bool(re.search(reading.read, queue.name)) is not is_rung
        assert bool(re.search(reading.write, queue.name)) >= is_rung


def test_some_right_covers_every_name_that_is_looked_at() -> None:
    """RabbitMQ 4.3.1 and later demand any one right to look, also on rungs and foreign exchanges."""
    rights = permissions(SPEC, declare=False)
    ours = [exchange.name for exchange in PLAN.exchanges] + [queue.name for queue in PLAN.queues]
    looked_at = [*ours, *PLAN.foreign_exchanges]

    assert [n for n in looked_at if not any(re.search(r, n) for r in (rights.write, rights.read))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'a' in vhost '/': "
            "received '11' but current is '10'",
            Difference("queue", "a", "x-max-length", "11", "10"),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'it's' in vhost 'v': "
            "received the value 'reject-publish' of type 'longstr' but current is none",
            Difference("queue", "it's", "x-overflow", "reject-publish", "none"),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'e' in vhost '/': "
            "received 'fanout' but current is 'topic'",
            Difference("exchange", "e", "type", "fanout", "topic"),
        ),
        ("PRECONDITION_FAILED - invalid arg 'x-foo'", None),
    ],
)
def test_the_brokers_words_are_read(text: str, found: Difference | None) -> None:
    """Fault 61: the recorded refusal of 3.10.8 gives argument, expected and found value."""
    assert parse_refusal(text) == found
