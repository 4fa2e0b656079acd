"""The wanted state of the broker: names + settings -> frozen exchanges, queues and bindings.

Data flow: settings -> TopologySpec -> build_plan -> Plan -> declare | check | export | show.
A plan is a value: it can be printed and compared, and equal settings give an equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

from topology.ladder import round_ms
from topology.matching import tenant_arguments
from topology.names import PARKED_PATTERN, RAW_KEY, REFUSED_PATTERN, SUSPECT_KEY, Names
from topology.spec import QUEUE_COUNT_MAX, QueueType, SourceSpec, TopologySpec

__all__ = [
    "QUEUE_COUNT_MAX",
    "BindingPlan",
    "Difference",
    "ExchangePlan",
    "Plan",
    "QueuePlan",
    "QueueType",
    "SourceSpec",
    "TopologySpec",
    "build_plan",
    "inbox_queues",
    "lane_queues",
    "sized_queues",
]

Argument: TypeAlias = str | int | None  #: None: AMQP's void, which in a headers binding requires presence
Arguments: TypeAlias = tuple[tuple[str, Argument], ...]  #: sorted by name

HASH_TYPE = "x-consistent-hash"
"""Exchange type of the plugin ``rabbitmq_consistent_hash_exchange``."""

DIED: Mapping[str, Argument] = {"x-match": "any-with-x", "x-death": None}
"""Arguments of a headers binding that matches every message with a recorded death, whatever its content.

RabbitMQ before 4.0 trusts a publisher's ``x-death`` when it dead-letters. A header that names our overflow
queue counts as a cycle and keeps the dead letters of its queue from leaving. A header that is not a list of
tables ends the process that forwards them. Such a message therefore never enters a queue that has dead
letters.
"""

_CLASSIC_IGNORES = frozenset({"x-dead-letter-strategy", "x-delivery-limit"})


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """One durable exchange of ours."""

    name: str
    type: str
    arguments: Arguments = ()

    def __str__(self) -> str:
        return _line(f"exchange {self.name} ({self.type})", self.arguments)


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One durable queue of ours.

    Attributes:
        follows: The arguments that depend on settings. They are set only at creation; if the broker has other
            values, these are used with a warning.
    """

    name: str
    arguments: Arguments
    follows: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return _line(f"queue {self.name}", self.arguments)


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """One binding from an exchange to a queue or to another exchange."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: Arguments = ()

    def __str__(self) -> str:
        key = self.routing_key or "(any)"
        head = f"binding {self.source} -[{key}]-> {self.destination_type} {self.destination}"
        return _line(head, self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The wanted state of the broker, in the order of declaration."""

    prefix: str
    exchanges: tuple[ExchangePlan, ...]
    queues: tuple[QueuePlan, ...]
    bindings: tuple[BindingPlan, ...]
    foreign_exchanges: tuple[str, ...] = ()  #: exchanges of the user; they must exist and are never declared
    unbound: tuple[BindingPlan, ...] = ()  #: bindings that must not exist

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def needs_consistent_hash(self) -> bool:
        """Whether the plugin must be enabled."""
        return any(exchange.type == HASH_TYPE for exchange in self.exchanges)

    def lines(self) -> tuple[str, ...]:
        """Return one line of text per foreign exchange, exchange, queue, binding, and binding to remove."""
        foreign = (f"foreign exchange {name}" for name in self.foreign_exchanges)
        parts: Iterable[object] = (*self.exchanges, *self.queues, *self.bindings)
        return (*foreign, *map(str, parts), *(f"no {binding}" for binding in self.unbound))

    def diff(self, other: Plan) -> tuple[str, ...]:
        """Return the changes from this plan to *other*: lines with ``- `` and ``+ ``; empty if equal."""
        mine, theirs = self.lines(), other.lines()
        gone, new = set(mine) - set(theirs), set(theirs) - set(mine)
        return (
            *(f"- {line}" for line in mine if line in gone),
            *(f"+ {line}" for line in theirs if line in new),
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One property in which a queue or exchange on the broker differs from the plan."""

    kind: str  #: ``queue`` or ``exchange``
    name: str
    argument: str  #: an ``x-`` argument, ``type``, ``durable`` ...
    expected: object  #: the value in the plan; ``none`` if the plan has none
    found: object  #: the value on the broker; ``none`` if it has none

    def __str__(self) -> str:
        return f"{self.argument} is {self.found} on the broker, {self.expected} in the plan"


def _line(head: str, arguments: Arguments) -> str:
    texts = (f"{name}=(any)" if value is None else f"{name}={value}" for name, value in arguments)
    return " ".join((head, *texts))


def build_plan(spec: TopologySpec) -> Plan:
    """Return the plan for *spec*. Equal settings give an equal plan.

    Source: RabbitMQ "Quorum Queues" (at-least-once dead lettering needs ``reject-publish``),
    "Alternate Exchanges", "Exchange to Exchange Bindings", rabbitmq_consistent_hash_exchange README.
    """
    foreign = sorted({source.exchange for source in spec.sources})
    return Plan(
        prefix=spec.prefix,
        exchanges=_exchanges(spec),
        queues=_queues(spec),
        bindings=_bindings(spec),
        foreign_exchanges=tuple(foreign),
        unbound=_unbound(spec),
    )


def _exchanges(spec: TopologySpec) -> tuple[ExchangePlan, ...]:
    names = spec.names
    if not spec.consistent_hash:
        lanes = ExchangePlan(names.lanes, "fanout")
    elif spec.hash_on == "tenant":
        lanes = ExchangePlan(names.lanes, HASH_TYPE, (("hash-header", spec.hash_header),))
    else:
        lanes = ExchangePlan(names.lanes, HASH_TYPE, (("hash-property", "message_id"),))
    return (
        ExchangePlan(names.expired, "fanout"),
        ExchangePlan(names.stray, "fanout"),
        ExchangePlan(names.store, "fanout"),
        ExchangePlan(names.dlx, "topic"),
        ExchangePlan(names.due, "topic", (("alternate-exchange", names.stray),)),
        ExchangePlan(names.wait, "topic"),
        lanes,
        ExchangePlan(names.route, "headers", (("alternate-exchange", names.lanes),)),
        ExchangePlan(names.guard, "headers", (("alternate-exchange", names.route),)),
        ExchangePlan(names.events, "topic"),
        *chain.from_iterable(
            _inbox_exchanges(names, source.name) for source in spec.sources if not source.direct
        ),
        ExchangePlan(names.control, "fanout"),
        ExchangePlan(names.ops, "topic"),
    )


def _queues(spec: TopologySpec) -> tuple[QueuePlan, ...]:
    names = spec.names
    last_resort = _dead_letters(names.dlx, RAW_KEY)
    work = {**last_resort, "x-delivery-limit": spec.delivery_limit}
    browsed = {"x-delivery-limit": spec.browse_limit}
    parked = {
        **_dead_letters(names.expired),
        **browsed,
        "x-max-length": spec.parked_max_length,
        "x-message-ttl": round_ms(spec.parked_ttl_s),
    }
    ends = (names.overflow, names.expired, names.stray, names.store)
    return (
        *(_queue(spec, name, browsed) for name in ends),
        _queue(spec, names.parked, parked, {"x-max-length", "x-message-ttl"}),
        _queue(spec, names.suspect, {**last_resort, "x-delivery-limit": spec.suspect_limit}),
        *(_queue(spec, name, work) for name in _work_queues(spec)),
        *(_queue(spec, name, browsed) for name in _died_queues(spec)),
        *(
            _queue(spec, names.rung(rung_s), {**_dead_letters(names.due), "x-message-ttl": round_ms(rung_s)})
            for rung_s in spec.rungs_s
        ),
    )


def _work_queues(spec: TopologySpec) -> tuple[str, ...]:
    names = spec.names
    return (
        *_due_targets(spec),
        *_lanes(spec),
        *(names.inbox(source.name) for source in spec.sources if not source.direct),
    )


def _died_queues(spec: TopologySpec) -> tuple[str, ...]:
    """Return the queues of messages with a recorded death; they have no dead letters that could block."""
    names = spec.names
    return (names.died, *(names.inbox_died(source.name) for source in spec.sources if not source.direct))


def lane_queues(spec: TopologySpec) -> tuple[str, ...]:
    """Return every queue of fresh events, including those that are only being emptied."""
    return (*_lanes(spec), spec.names.died)


def inbox_queues(spec: TopologySpec) -> tuple[str, ...]:
    """Return every queue of source messages that need more than their headers."""
    names = spec.names
    read = [source.name for source in spec.sources if not source.direct]
    return (*map(names.inbox, read), *map(names.inbox_died, read))


def _lanes(spec: TopologySpec) -> tuple[str, ...]:
    names = spec.names
    return (
        *(names.lane(index) for index in range(max(spec.lanes, spec.lanes_before))),
        *(names.dedicated(tenant) for tenant in (*spec.dedicated, *spec.retired)),
    )


def _due_targets(spec: TopologySpec) -> tuple[str, ...]:
    names = spec.names
    return (
        *(names.due_queue(index) for index in range(spec.due_queues)),
        names.replay,
        *(names.spill(index) for index in range(spec.spill_queues)),
    )


def _dead_letters(exchange: str, routing_key: str | None = None) -> dict[str, Argument]:
    """Return the arguments of a queue whose dead letters leave it only after a confirm."""
    arguments: dict[str, Argument] = {
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    if routing_key is not None:
        arguments["x-dead-letter-routing-key"] = routing_key
    return arguments


def _queue(
    spec: TopologySpec, name: str, wanted: Mapping[str, Argument], follows: Iterable[str] = ()
) -> QueuePlan:
    """Build one queue of the wanted type; arguments that classic queues ignore are left out."""
    arguments: dict[str, Argument] = {**wanted, "x-queue-type": spec.queue_type}
    if spec.queue_type == "classic":
        arguments = {key: value for key, value in arguments.items() if key not in _CLASSIC_IGNORES}
    soft = frozenset(follows) | {"x-delivery-limit"}
    return QueuePlan(name, tuple(sorted(arguments.items())), soft & arguments.keys())


def _bindings(spec: TopologySpec) -> tuple[BindingPlan, ...]:
    names = spec.names
    return (
        BindingPlan(names.expired, names.expired, "queue", ""),
        BindingPlan(names.stray, names.stray, "queue", ""),
        BindingPlan(names.store, names.store, "queue", ""),
        BindingPlan(names.dlx, names.parked, "queue", PARKED_PATTERN),
        BindingPlan(names.dlx, names.overflow, "queue", RAW_KEY),
        BindingPlan(names.dlx, names.overflow, "queue", REFUSED_PATTERN),
        BindingPlan(names.dlx, names.suspect, "queue", SUSPECT_KEY),
        *(BindingPlan(names.due, name, "queue", names.due_pattern(name)) for name in _due_targets(spec)),
        *(
            BindingPlan(names.wait, names.rung(rung_s), "queue", names.rung_pattern(rung_s))
            for rung_s in spec.rungs_s
        ),
        *(_lane_binding(spec, index) for index in range(spec.lanes)),
        *_dedicated_bindings(spec, spec.dedicated),
        _died_binding(names.guard, names.died),
        BindingPlan(names.events, names.guard, "exchange", "#"),
        *chain.from_iterable(_source_bindings(names, source) for source in spec.sources),
    )


def _lane_binding(spec: TopologySpec, index: int) -> BindingPlan:
    names = spec.names
    return BindingPlan(names.lanes, names.lane(index), "queue", "1" if spec.consistent_hash else "")


def _tenant_bindings(spec: TopologySpec, tenant: str, queue: str) -> tuple[BindingPlan, ...]:
    """Route a tenant around the lanes, by the header that names it."""
    return tuple(
        BindingPlan(spec.names.route, queue, "queue", "", tuple(sorted(wanted.items())))
        for wanted in tenant_arguments(spec.hash_header, tenant)
    )


def _dedicated_bindings(spec: TopologySpec, tenants: Iterable[str]) -> tuple[BindingPlan, ...]:
    """Route each of *tenants* to a lane of its own."""
    found = (_tenant_bindings(spec, tenant, spec.names.dedicated(tenant)) for tenant in tenants)
    return tuple(chain.from_iterable(found))


def _unbound(spec: TopologySpec) -> tuple[BindingPlan, ...]:
    """Return bindings that would fill a lane to be emptied, or copy the events of a dedicated tenant."""
    names = spec.names
    spills = [names.spill(index) for index in range(spec.spill_queues)]
    return (
        *_unguarded(spec),
        *(_lane_binding(spec, index) for index in range(spec.lanes, spec.lanes_before)),
        *_dedicated_bindings(spec, spec.retired),
        *chain.from_iterable(_tenant_bindings(spec, t, queue) for t in spec.dedicated for queue in spills),
    )


def _unguarded(spec: TopologySpec) -> tuple[BindingPlan, ...]:
    """Return the routes around the guards, which an earlier release bound."""
    names = spec.names
    return (
        BindingPlan(names.events, names.route, "exchange", "#"),
        *(
            BindingPlan(source.exchange, names.inbox(source.name), "queue", source.routing_key)
            for source in spec.sources
            if not source.direct
        ),
    )


def _died_binding(guard: str, queue: str) -> BindingPlan:
    return BindingPlan(guard, queue, "queue", "", tuple(sorted(DIED.items())))


def _inbox_exchanges(names: Names, source: str) -> tuple[ExchangePlan, ...]:
    undied = names.inbox_undied(source)
    return (
        ExchangePlan(undied, "fanout"),
        ExchangePlan(names.inbox(source), "headers", (("alternate-exchange", undied),)),
    )


def _source_bindings(names: Names, source: SourceSpec) -> tuple[BindingPlan, ...]:
    if source.direct:
        return (BindingPlan(source.exchange, names.events, "exchange", source.routing_key),)
    inbox = names.inbox(source.name)
    return (
        BindingPlan(names.inbox_undied(source.name), inbox, "queue", ""),
        _died_binding(inbox, names.inbox_died(source.name)),
        BindingPlan(source.exchange, inbox, "exchange", source.routing_key),
    )


def sized_queues(spec: TopologySpec) -> tuple[tuple[str, str], ...]:
    """Return every queue whose size is measured, with the kind under which it is counted."""
    names = spec.names
    named: list[tuple[Callable[[int], str], int, str]] = [
        (names.due_queue, spec.due_queues, "due"),
        (names.spill, spec.spill_queues, "spill"),
    ]
    queues = [(name(i), label) for name, count, label in named for i in range(count)]
    queues += [(name, "lane") for name in lane_queues(spec)]
    queues += [(names.rung(rung_s), "wait") for rung_s in spec.rungs_s]
    single = ("replay", "suspect", "overflow", "parked", "expired", "stray")
    return tuple(queues + [(getattr(names, label), label) for label in single])
