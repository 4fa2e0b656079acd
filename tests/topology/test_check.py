"""The check against the management API: each difference is one finding with a remedy."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from topology.check import Finding, Severity, Snapshot, check_snapshot
from topology.export import definitions, inexpressible
from topology.plan import BindingPlan, SourceSpec, TopologySpec, build_plan
from topology.policies import effective_policy

SPEC = TopologySpec(
    lanes=2,
    due_queues=1,
    spill_queues=1,
    rungs_s=(1.0, 2.0),
    sources=(SourceSpec(name="crm", exchange="crm"),),
)
PLAN = build_plan(SPEC)


def void(binding: BindingPlan) -> dict[str, Any]:
    """Return a binding as the management API lists it: AMQP's void is a text there."""
    fields = ("source", "destination", "destination_type", "routing_key")
    arguments = {name: "undefined" if value is None else value for name, value in binding.arguments}
    return {name: getattr(binding, name) for name in fields} | {"arguments": arguments}


def clean() -> dict[str, Any]:
    """Return the fields of a snapshot of a broker that equals the plan."""
    document = copy.deepcopy(definitions(PLAN))
    crm = {"name": "crm", "type": "topic", "durable": True, "arguments": {}}
    return {
        "version": "3.10.8",
        "exchange_types": frozenset({"topic", "fanout", "headers", "x-consistent-hash"}),
        "quorum_queues": len(PLAN.queues),
        "exchanges": [*document["exchanges"], crm],
        "queues": [{**queue, "exclusive": None, "messages": 0} for queue in document["queues"]],
        "bindings": [*document["bindings"], *map(void, inexpressible(PLAN))],
        "flags": {"quorum_queue": "enabled", "stream_queue": "enabled"},
        "nodes": [{"name": "rabbit@a", "fd_total": 1024}],
    }


def findings(**changes: Any) -> list[Finding]:
    """Check a clean broker with some fields replaced."""
    return list(check_snapshot(PLAN, Snapshot(**{**clean(), **changes})))


def policy(definition: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a policy record that matches everything."""
    record = {"name": "p", "pattern": ".*", "apply-to": "all", "priority": 0, "definition": definition}
    return {**record, **changes}


def test_a_broker_as_planned_has_no_findings() -> None:
    """A broker that equals the plan has no findings."""
    assert findings() == []


@pytest.mark.parametrize("sort", ["exchanges", "queues", "bindings"])
def test_each_missing_part_is_named(sort: str) -> None:
    """Each missing exchange, queue or binding is named, alone with the parts that depend on it."""
    for index, record in enumerate(clean()[sort]):
        kept = [other for place, other in enumerate(clean()[sort]) if place != index]

        found = findings(**{sort: kept})

        assert [finding.severity for finding in found] == [Severity.ERROR]
        wanted = record.get("name") or record["destination"]
        assert wanted in found[0].subject
        assert "does not exist" in found[0].text


def test_every_argument_is_compared() -> None:
    """Each changed argument is an error, or a warning if settings determine it."""
    for index, queue in enumerate(PLAN.queues):
        for argument, value in queue.arguments:
            queues = clean()["queues"]
            queues[index]["arguments"][argument] = 5 if isinstance(value, int) else "other"

            [finding] = findings(queues=queues)

            soft = argument in queue.follows
            assert finding.severity is (Severity.WARNING if soft else Severity.ERROR)
            assert finding.subject == f"queue {queue.name}"
            assert finding.text.startswith(f"{argument} is ")


def test_an_argument_too_many_is_named() -> None:
    """A dead-letter target with a length limit by argument is an error."""
    queues = clean()["queues"]
    overflow = next(queue for queue in queues if queue["name"] == "leveret.overflow")
    overflow["arguments"]["x-max-length"] = 5

    [finding] = findings(queues=queues)

    assert str(finding).startswith("error: queue leveret.overflow: x-max-length is 5 on the broker, none in")


def test_an_exchange_of_another_type_is_named() -> None:
    """The check compares the hash header, which the broker ignores in a declaration."""
    exchanges = clean()["exchanges"]
    lanes = next(exchange for exchange in exchanges if exchange["name"] == "leveret.lanes")
    lanes["arguments"] = {"hash-property": "message_id"}

    found = findings(exchanges=exchanges)

    assert {finding.text.partition(" ")[0] for finding in found} == {"hash-header", "hash-property"}


def test_a_foreign_binding_inside_is_named() -> None:
    """A queue bound to the lanes takes a share of events; one bound to events only receives copies."""
    ours = clean()["bindings"]
    thief = {"source": "leveret.lanes", "destination": "tap", "destination_type": "queue", "routing_key": "1"}
    listener = {**thief, "source": "leveret.events", "routing_key": "#"}
    default = {**thief, "source": "", "destination": "leveret.lane.00", "routing_key": "leveret.lane.00"}

    assert findings(bindings=[*ours, listener, default]) == []
    [finding] = findings(bindings=[*ours, thief])
    assert finding.severity is Severity.ERROR
    assert "tap" in finding.subject


def test_queues_of_a_larger_plan_are_named() -> None:
    """A lane, rung or due queue that the settings no longer name is reported with its messages."""
    queues = clean()["queues"]
    old = [{**queues[0], "name": name, "messages": 7} for name in ("leveret.lane.02", "leveret.wait.4000")]
    alien = {**queues[0], "name": "leveret.reports", "messages": 7}

    found = findings(queues=[*queues, *old, alien])

    assert [finding.subject for finding in found] == ["queue leveret.lane.02", "queue leveret.wait.4000"]
    assert all("contains 7 messages" in finding.text for finding in found)


@pytest.mark.parametrize(
    ("changes", "subject", "remedy"),
    [
        ({"exchange_types": frozenset({"topic"})}, "plugin", "rabbitmq-plugins enable"),
        ({"flags": {"stream_queue": "disabled"}}, "feature flag stream_queue", "enable_feature_flag"),
        ({"quorum_queues": 274}, "node rabbit@a", "open-file limit"),
        ({"gaps": ["/api/nodes (403)"]}, "management API /api/nodes (403)", "monitoring"),
    ],
)
def test_the_node_is_looked_at(changes: dict[str, Any], subject: str, remedy: str) -> None:
    """The check covers plugin, feature flags, and three file handles per quorum queue."""
    [finding] = findings(**changes)

    assert finding.subject.startswith(subject)
    assert remedy in finding.remedy


def test_newer_servers_reserve_no_handles() -> None:
    """4.x reserves no handles, and flags that no longer exist are not findings."""
    assert findings(version="4.0.5", quorum_queues=1200, flags={}) == []
    assert findings(quorum_queues=273) == []


@pytest.mark.parametrize(
    ("definition", "subject", "severity"),
    [
        ({"overflow": "drop-head"}, "queue leveret.parked", Severity.ERROR),
        ({"message-ttl": 5}, "queue leveret.overflow", Severity.ERROR),
        ({"message-ttl": 1500}, "queue leveret.wait.2000", Severity.ERROR),
        ({"message-ttl": 60_000}, "queue leveret.parked", Severity.WARNING),
        ({"max-length": 5}, "queue leveret.overflow", Severity.ERROR),
        ({"max-length": 5}, "queue leveret.parked", Severity.WARNING),
        ({"max-length-bytes": 5}, "queue leveret.due.00", Severity.ERROR),
        ({"expires": 5}, "queue leveret.wait.1000", Severity.ERROR),
        ({"delivery-limit": 20}, "queue leveret.parked", Severity.ERROR),
        ({"delayed-retry-type": "all"}, "queue leveret.store", Severity.ERROR),
        ({"delayed-retry-type": "returned"}, "queue leveret.parked", Severity.ERROR),
        ({"delayed-retry-type": "failed"}, "queue leveret.due.00", Severity.WARNING),
        ({"consumer-timeout": 600_000}, "queue leveret.due.00", Severity.WARNING),
        ({"dead-letter-routing-key": "x"}, "queue leveret.wait.1000", Severity.ERROR),
        ({"dead-letter-exchange": "x"}, "queue leveret.overflow", Severity.WARNING),
        ({"alternate-exchange": "x"}, "exchange leveret.wait", Severity.ERROR),
    ],
)
@pytest.mark.parametrize("sort", ["policies", "operator_policies"])
def test_policies_that_bite_are_named(
    sort: str, definition: dict[str, Any], subject: str, severity: Severity
) -> None:
    """A policy that limits a dead-letter target, or changes TTL, overflow or dead letters, is reported."""
    found = {finding.subject: finding for finding in findings(**{sort: [policy(definition)]})}

    assert found[subject].severity is severity
    assert found[subject].text.startswith("policy p ")


@pytest.mark.parametrize(
    "record",
    [
        policy({"queue-leader-locator": "balanced", "ha-mode": "all"}),
        policy({"overflow": "reject-publish", "delivery-limit": 1_000_000}),
        policy({"delayed-retry-type": "disabled", "consumer-timeout": 1_800_000}),
        policy({"message-ttl": 2000}, pattern="leveret\\.wait\\."),
        policy({"message-ttl": 5}, pattern="^other\\."),
        policy({"message-ttl": 5}, **{"apply-to": "classic_queues"}),
        policy({"message-ttl": 5}, **{"apply-to": "exchanges"}),
    ],
)
def test_harmless_policies_are_not_named(record: dict[str, Any]) -> None:
    """A policy without an effect on our names is not a finding."""
    assert findings(policies=[record]) == []


@pytest.mark.parametrize("bound", [5, 12])
def test_the_highest_priority_holds_and_the_operator_lowers(bound: int) -> None:
    """Only the policy of the highest priority applies; the operator's number can only lower it."""
    low, high = policy({"expires": 1}, name="low"), policy({"max-length": 9}, name="high", priority=2)
    operator = policy({"max-length": bound}, name="op")

    effective = effective_policy("leveret.due.00", "quorum_queues", [low, high], [operator])

    assert (effective.names, effective.definition) == ("high and op", {"max-length": min(9, bound)})


def test_a_pattern_only_the_broker_understands_is_looked_at() -> None:
    """A PCRE pattern that Python cannot read counts as a match, so that an operator inspects it."""
    assert findings(policies=[policy({"expires": 1}, pattern="^(?|a)")]) != []


def test_a_classic_plan_asks_for_no_flags_or_handles() -> None:
    """Classic queues need neither the feature flags nor file handles."""
    plan = build_plan(replace(SPEC, queue_type="classic"))
    fields = {**clean(), "flags": {"quorum_queue": "disabled"}, "quorum_queues": 9_999}

    subjects = [finding.subject for finding in check_snapshot(plan, Snapshot(**fields))]

    assert not [subject for subject in subjects if subject.startswith(("feature flag", "node"))]


GOING = build_plan(replace(SPEC, lanes_before=3, dedicated=("acme",), retired=("former",)))


def going(bindings: list[dict[str, Any]]) -> list[Finding]:
    """Return the findings for a plan that removes lanes, with further bindings on the broker."""
    document = definitions(GOING)
    queues = [{**queue, "exclusive": None, "messages": 0} for queue in document["queues"]]
    existing = [*document["bindings"], *map(void, inexpressible(GOING))]
    fields = clean() | {"queues": queues, "bindings": [*existing, *bindings]}
    return list(check_snapshot(GOING, Snapshot(**fields)))


def test_a_lane_that_is_emptied_must_not_be_bound() -> None:
    """A binding to a removed lane, or of a dedicated tenant to a spill queue, is an error."""
    assert going([]) == []
    arguments = {"x-match": "all", "tenant": "former"}
    found = going(
        [
            binding("leveret.lanes", "leveret.lane.02", "1"),
            binding("leveret.route", "leveret.dedicated.former", "", arguments),
            binding("leveret.route", "leveret.spill.00", "", arguments | {"tenant": "acme"}),
            binding("leveret.route", "leveret.spill.00", "", arguments | {"tenant": "noisy"}),
        ]
    )

    assert [finding.severity for finding in found] == [Severity.ERROR] * 3
    assert {finding.remedy for finding in found} == {"run `leveret topology apply`"}


def test_a_dedicated_lane_of_no_plan_is_an_error() -> None:
    """A dedicated lane outside the plan is an error, because no worker consumes it."""
    arguments = {"x-match": "all", "tenant": "lost"}

    [finding] = going([binding("leveret.route", "leveret.dedicated.lost", "", arguments)])

    assert finding.severity is Severity.ERROR
    assert "[topology] dedicated or retired" in finding.remedy


def binding(
    source: str, destination: str, key: str, arguments: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return the record of a queue's binding."""
    return {
        "source": source,
        "destination": destination,
        "destination_type": "queue",
        "routing_key": key,
        "arguments": arguments or {},
    }


@pytest.mark.parametrize(
    ("queue", "remedy"),
    [
        ("leveret.lane.07", "lanes_before"),
        ("leveret.dedicated.lane.07", "retired"),
        ("leveret.wait.9", "restore the former settings"),
    ],
)
def test_additional_queues_are_reported_with_the_remedy(queue: str, remedy: str) -> None:
    """The finding names the setting that empties the queue."""
    left = {"name": queue, "messages": 5, "arguments": {"x-queue-type": "quorum"}, "durable": True}

    [finding] = findings(queues=[*clean()["queues"], left])

    assert remedy in finding.remedy
