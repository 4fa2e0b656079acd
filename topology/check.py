"""Compare a plan with a broker: plan + records of the management API -> findings, each with a remedy.

Data flow: edges.management fetches -> Snapshot -> check_snapshot -> findings; topology.probe adds the
findings that only AMQP can show. This module itself never contacts the broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, TypeAlias

from topology.plan import (
    HASH_TYPE,
    Argument,
    Arguments,
    BindingPlan,
    Difference,
    ExchangePlan,
    Plan,
    QueuePlan,
)
from topology.policies import (
    EffectivePolicy,
    PolicyFault,
    effective_policy,
    exchange_policy_faults,
    queue_policy_faults,
)

Record: TypeAlias = Mapping[str, Any]

HANDLES_PER_QUEUE = 3
"""File handles that a quorum queue reserves on 3.10 to 3.13. Source: docs/brokers.md, "File handles"."""

HANDLES_SHARE = 0.8
"""Share of a node's handles that queues may reserve; the broker refuses connections from 0.88 on."""

_FLAGS = {
    "quorum_queue": "quorum queues",
    "stream_queue": "at-least-once dead lettering",
}
_APPLY = "run `leveret topology apply`"


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"  #: the daemon would not start, or messages would be lost, early or stuck
    WARNING = "warning"  #: it works, but differs from the settings
    NOTE = "note"  #: a part could not be checked


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between the plan and the broker."""

    severity: Severity
    subject: str  #: such as ``queue leveret.parked``
    text: str  #: the state found and the state expected
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.text}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The answers of the management API about one virtual host, as plain records.

    Attributes:
        version: The server's version, such as ``3.10.8``.
        exchange_types: The exchange types that the node supports.
        quorum_queues: Number of quorum queues in all virtual hosts together.
        queues: The answer of GET /api/queues/VHOST, including policies; likewise the others.
        policies: The answer of GET /api/policies/VHOST; likewise the operator's policies.
        flags: State of each feature flag, by name.
        nodes: Records with ``name`` and ``fd_total``.
        gaps: The parts that could not be read, such as ``nodes: 403``.
    """

    version: str
    exchange_types: frozenset[str]
    quorum_queues: int
    exchanges: Sequence[Record] = ()
    queues: Sequence[Record] = ()
    bindings: Sequence[Record] = ()
    policies: Sequence[Record] = ()
    operator_policies: Sequence[Record] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Record] = ()
    gaps: Sequence[str] = ()


def difference_finding(difference: Difference, *, soft: bool) -> Finding:
    """Return the finding for one difference; *soft*: settings determine it, and the found value is used."""
    subject = f"{difference.kind} {difference.name}"
    if soft:
        remedy = f"it is used as it is; to change it drain and delete the queue, then {_APPLY}"
        return Finding(Severity.WARNING, subject, str(difference), remedy)
    remedy = f"drain and delete the {difference.kind}, then {_APPLY}"
    return Finding(Severity.ERROR, subject, str(difference), remedy)


def missing_finding(kind: str, name: str) -> Finding:
    """Return the finding for a queue or exchange of ours that does not exist."""
    return Finding(Severity.ERROR, f"{kind} {name}", "does not exist", _APPLY)


def missing_source_finding(name: str) -> Finding:
    """Return the finding for a source's exchange that does not exist."""
    return Finding(
        Severity.ERROR,
        f"exchange {name}",
        "does not exist, but [[sources]] names it",
        "create it or correct the name",
    )


def check_snapshot(plan: Plan, snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return every difference between *plan* and the broker, in the plan's order; empty if there is none."""
    exchanges = {record["name"]: record for record in snapshot.exchanges}
    queues = {record["name"]: record for record in snapshot.queues}
    return (
        *(_gap(gap) for gap in snapshot.gaps),
        *_node_findings(plan, snapshot, queues),
        *(missing_source_finding(name) for name in plan.foreign_exchanges if name not in exchanges),
        *chain.from_iterable(_exchange_findings(part, exchanges.get(part.name)) for part in plan.exchanges),
        *chain.from_iterable(_queue_findings(part, queues.get(part.name)) for part in plan.queues),
        *_policy_findings(plan, snapshot),
        *_binding_findings(plan, snapshot.bindings, queues.keys() | exchanges.keys()),
        *_leftover_findings(plan, snapshot.queues),
    )


def _gap(gap: str) -> Finding:
    remedy = "give the management user the tag monitoring or administrator"
    return Finding(Severity.NOTE, f"management API {gap}", "could not be read", remedy)


def _node_findings(plan: Plan, snapshot: Snapshot, queues: Mapping[str, Record]) -> Iterator[Finding]:
    if plan.needs_consistent_hash and HASH_TYPE not in snapshot.exchange_types:
        yield Finding(
            Severity.ERROR,
            "plugin rabbitmq_consistent_hash_exchange",
            "is not enabled",
            "run `rabbitmq-plugins enable rabbitmq_consistent_hash_exchange`, or set [topology] "
            "consistent_hash = false and lanes = 1",
        )
    quorum = [queue.name for queue in plan.queues if ("x-queue-type", "quorum") in queue.arguments]
    if quorum:
        yield from (
            Finding(
                Severity.ERROR,
                f"feature flag {flag}",
                f"is {snapshot.flags[flag]}, but {purpose} need it",
                f"run `rabbitmqctl enable_feature_flag {flag}`",
            )
            for flag, purpose in _FLAGS.items()
            if snapshot.flags.get(flag, "enabled") != "enabled"
        )
        new = sum(name not in queues for name in quorum)
        yield from handle_findings(snapshot, snapshot.quorum_queues + new)


def handle_findings(snapshot: Snapshot, quorum_queues: int) -> Iterator[Finding]:
    """Yield nodes whose file limit is too low for the quorum queues; 4.x reserves no handles."""
    major = snapshot.version.partition(".")[0]
    if not major.isdecimal() or int(major) >= 4:
        return
    needed = quorum_queues * HANDLES_PER_QUEUE
    for node in snapshot.nodes:
        total = node.get("fd_total")
        if not isinstance(total, int):
            subject = f"open-file limit of node {node['name']}"
            yield Finding(Severity.NOTE, subject, "is not known yet", "check again some seconds later")
        elif needed > HANDLES_SHARE * total:
            yield Finding(
                Severity.ERROR,
                f"node {node['name']}",
                f"may open {total} files, and {quorum_queues} quorum queues reserve {needed}",
                f"raise its open-file limit (LimitNOFILE, ulimit -n) to {needed * 2}, or use fewer queues",
            )


def _exchange_findings(exchange: ExchangePlan, record: Record | None) -> Iterator[Finding]:
    if record is None:
        yield missing_finding("exchange", exchange.name)
        return
    found = {"type": record["type"], "durable": record["durable"], **record["arguments"]}
    expected = {"type": exchange.type, "durable": True, **dict(exchange.arguments)}
    yield from _argument_findings("exchange", exchange.name, found, expected)


def _queue_findings(queue: QueuePlan, record: Record | None) -> Iterator[Finding]:
    if record is None:
        yield missing_finding("queue", queue.name)
        return
    flags = ("durable", "exclusive", "auto_delete")
    found = {**{flag: bool(record.get(flag)) for flag in flags}, **record["arguments"]}
    expected = {"durable": True, "exclusive": False, "auto_delete": False, **dict(queue.arguments)}
    yield from _argument_findings("queue", queue.name, found, expected, queue.follows)


def _policy_findings(plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the faults of policies for our names, even if the queue or exchange does not exist yet."""
    policies, operators = snapshot.policies, snapshot.operator_policies
    for exchange in plan.exchanges:
        effective = effective_policy(exchange.name, "exchanges", policies, operators)
        for fault in exchange_policy_faults(exchange, effective.definition):
            yield _policy_finding(f"exchange {exchange.name}", effective, fault)
    for queue in plan.queues:
        kind = f"{dict(queue.arguments)['x-queue-type']}_queues"
        effective = effective_policy(queue.name, kind, policies, operators)
        for fault in queue_policy_faults(queue, effective.definition):
            yield _policy_finding(f"queue {queue.name}", effective, fault)


def _policy_finding(subject: str, effective: EffectivePolicy, fault: PolicyFault) -> Finding:
    severity = Severity.ERROR if fault.breaks else Severity.WARNING
    remedy = f"narrow the pattern of policy {effective.names} so that it excludes our names"
    return Finding(severity, subject, f"policy {effective.names} {fault.text}", remedy)


def _argument_findings(
    kind: str, name: str, found: Record, expected: Record, follows: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    for argument in sorted(found.keys() | expected.keys()):
        values = found.get(argument, "none"), expected.get(argument, "none")
        if values[0] != values[1]:
            yield difference_finding(
                Difference(kind, name, argument, values[1], values[0]), soft=argument in follows
            )


def _binding_findings(
    plan: Plan, records: Sequence[Record], known: frozenset[str] | set[str]
) -> Iterator[Finding]:
    found = {
        BindingPlan(
            record["source"],
            record["destination"],
            record["destination_type"],
            record["routing_key"],
            _arguments(record.get("arguments") or {}),
        )
        for record in records
    }
    planned = set(plan.bindings)
    for binding in plan.bindings:
        if binding not in found and {binding.source, binding.destination} <= known:
            yield Finding(Severity.ERROR, str(binding), "does not exist", _APPLY)
    yield from _misrouted_findings(plan, found)
    open_ended = {f"{plan.prefix}.{name}" for name in ("events", "route", "control", "ops")}
    inner = {exchange.name for exchange in plan.exchanges} - open_ended
    leftover = _ours(plan)
    for binding in sorted(found - planned - set(plan.unbound), key=str):
        idle = leftover.fullmatch(binding.destination) and not binding.source.endswith(".lanes")
        if binding.source in inner and not idle:
            yield Finding(
                Severity.ERROR,
                str(binding),
                "is not in the plan and takes or copies our messages",
                f"delete the binding, then drain {binding.destination}",
            )


def _misrouted_findings(plan: Plan, found: Set[BindingPlan]) -> Iterator[Finding]:
    """Yield bindings that send events to a queue without a consumer, or send a second copy."""
    for binding in plan.unbound:
        if binding in found:
            text = "sends events where they must no longer go"
            yield Finding(Severity.ERROR, str(binding), text, _APPLY)
    own = re.compile(rf"{re.escape(plan.prefix)}\.dedicated\..+")
    for binding in sorted(found - {*plan.bindings, *plan.unbound}, key=str):
        if own.fullmatch(binding.destination) and binding.destination_type == "queue":
            yield Finding(
                Severity.ERROR,
                str(binding),
                "sends a tenant's events to a lane without a consumer",
                f"name the tenant in [topology] dedicated or retired, then {_APPLY}",
            )


def _argument(value: object) -> Argument:
    """Read one value of a binding's arguments; the management API writes AMQP's void as ``undefined``."""
    if value is None or value == "undefined":
        return None
    return value if isinstance(value, str | int) else repr(value)


def _arguments(found: Record) -> Arguments:
    return tuple(sorted((k, _argument(v)) for k, v in found.items()))


def _ours(plan: Plan) -> re.Pattern[str]:
    """Return a pattern for the names of our queues whose number depends on settings."""
    return re.compile(rf"{re.escape(plan.prefix)}\.((lane|due|spill)\.\d\d|wait\.\d+|(inbox|dedicated)\..+)")


def _leftover_findings(plan: Plan, records: Sequence[Record]) -> Iterator[Finding]:
    """Yield queues of an earlier plan, which no worker consumes any more."""
    planned = {queue.name for queue in plan.queues}
    ours = _ours(plan)
    for record in records:
        name = record["name"]
        if name not in planned and ours.fullmatch(name):
            yield Finding(
                Severity.WARNING,
                f"queue {name}",
                f"is no longer in the plan and contains {record.get('messages', 'some')} messages",
                emptying_remedy(name),
            )


def emptying_remedy(queue: str) -> str:
    """Return the remedy that empties a queue which is no longer in the plan."""
    if ".dedicated." in queue:
        return "name its tenant in [topology] retired until it is empty, then delete it"
    if re.fullmatch(r".+\.lane\.\d\d", queue):
        return "set [topology] lanes_before to the former number until it is empty, then delete it"
    return "restore the former settings until it is empty, then delete it"
