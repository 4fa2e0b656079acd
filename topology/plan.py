"""What should stand on the broker: names + settings -> frozen exchanges, queues and bindings.

Data flow: settings -> TopologySpec -> build_plan -> Plan -> declare | check | export | show.
A plan is a value: it prints, compares and is the same text for the same settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from topology.ladder import RUNGS_S, Ladder, to_ms
from topology.names import PARKED_PATTERN, RAW_KEY, REFUSED_PATTERN, SUSPECT_KEY, Names

Argument: TypeAlias = str | int
Arguments: TypeAlias = tuple[tuple[str, Argument], ...]  #: sorted by name
QueueType: TypeAlias = Literal["quorum", "classic"]

HASH_TYPE = "x-consistent-hash"
"""Exchange type of the plugin ``rabbitmq_consistent_hash_exchange``."""

QUEUE_COUNT_MAX = 100
"""Most lanes, due or spill queues: their names carry two digits."""

_SOURCE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CLASSIC_IGNORES = frozenset({"x-dead-letter-strategy", "x-delivery-limit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """An exchange of the user's that events are taken from.

    Attributes:
        name: Names the inbox; letters, digits, ``_`` and ``-``.
        exchange: The user's exchange; it has to exist.
        routing_key: Binding pattern on it.
        direct: True: bound straight to our events exchange; False: through an inbox queue of its own,
            because its events need more than their headers.
    """

    name: str
    exchange: str
    routing_key: str = "#"
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec:
    """The settings that shape the topology. Times in seconds.

    Raises:
        ValueError: a field is out of its bounds; the text names it and what is allowed.
    """

    prefix: str = "leveret"
    queue_type: QueueType = "quorum"
    lanes: int = 16  #: 1 to 100; 1 where the consistent-hash plugin is missing
    due_queues: int = 4  #: 1 to 100
    spill_queues: int = 4  #: 0 to 100
    rungs_s: tuple[float, ...] = RUNGS_S  #: ascending, whole milliseconds, at least one
    hold_s: float = 1.0  #: see :class:`topology.ladder.Ladder`
    hold_ratio: float = 0.02  #: see :class:`topology.ladder.Ladder`
    hold_max_s: float = 10.0  #: see :class:`topology.ladder.Ladder`
    parked_max_length: int = 10_000  #: entries, at least 1
    parked_ttl_s: float = 7 * 86_400.0  #: at least 0.001
    delivery_limit: int = 1_000  #: last net of lanes, due, replay, spill and inboxes; at least 1
    browse_limit: int = 1_000_000  #: where messages are looked at and given back: each look counts
    suspect_limit: int = 2  #: tries that a suspected message gets before it goes to overflow
    hash_on: Literal["tenant", "message_id"] = "tenant"
    hash_header: str = "tenant"  #: the header that names the tenant, where hash_on is tenant
    consistent_hash: bool = True  #: False: no plugin, a fanout in front of the one lane
    sources: tuple[SourceSpec, ...] = ()

    def __post_init__(self) -> None:
        Names(self.prefix)
        if self.queue_type not in ("quorum", "classic"):
            raise ValueError(f"queue_type must be 'quorum' or 'classic', got {self.queue_type!r}")
        for field, least in (("lanes", 1), ("due_queues", 1), ("spill_queues", 0)):
            _within(field, getattr(self, field), least, QUEUE_COUNT_MAX)
        for field in ("parked_max_length", "delivery_limit", "browse_limit", "suspect_limit"):
            _within(field, getattr(self, field), 1, 2**31 - 1)
        if not self.consistent_hash and self.lanes != 1:
            raise ValueError(f"without the consistent-hash plugin lanes must be 1, got {self.lanes}")
        if to_ms(self.parked_ttl_s) < 1:
            raise ValueError(f"parked_ttl_s must be at least 0.001, got {self.parked_ttl_s}")
        _check_rungs(self.rungs_s)
        _check_sources(self.sources)

    @property
    def names(self) -> Names:
        """The names under this prefix."""
        return Names(self.prefix)

    @property
    def ladder(self) -> Ladder:
        """The rungs and what is held in the worker."""
        return Ladder(
            rungs_s=self.rungs_s,
            hold_s=self.hold_s,
            hold_ratio=self.hold_ratio,
            hold_max_s=self.hold_max_s,
        )


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{field} must be {least} to {most}, got {value}")


def _check_rungs(rungs_s: tuple[float, ...]) -> None:
    milliseconds = [to_ms(rung_s) for rung_s in rungs_s]
    if not milliseconds or milliseconds[0] < 1:
        raise ValueError(f"rungs_s must hold at least one rung of 0.001 s or more, got {rungs_s}")
    if any(upper <= lower for lower, upper in pairwise(milliseconds)):
        raise ValueError(f"rungs_s must ascend in steps of a millisecond or more, got {rungs_s}")
    if any(abs(ms - rung_s * 1000) > 1e-6 for ms, rung_s in zip(milliseconds, rungs_s, strict=True)):
        raise ValueError(f"rungs_s must be whole milliseconds, got {rungs_s}")


def _check_sources(sources: tuple[SourceSpec, ...]) -> None:
    names = [source.name for source in sources]
    for name in names:
        if not _SOURCE_NAME.fullmatch(name):
            raise ValueError(f"source name {name!r} must be 1 to 64 letters, digits, '_' or '-'")
        if names.count(name) > 1:
            raise ValueError(f"source name {name!r} is used twice: names must differ")
    for source in sources:
        if not source.exchange:
            raise ValueError(f"source {source.name!r} names no exchange: the default one cannot be bound")


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
        follows: The arguments that follow settings: given at creation only, a difference on the
            broker is used with a warning.
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

    def __str__(self) -> str:
        key = self.routing_key or "(any)"
        return f"binding {self.source} -[{key}]-> {self.destination_type} {self.destination}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that should stand on the broker, in the order in which it is declared."""

    prefix: str
    exchanges: tuple[ExchangePlan, ...]
    queues: tuple[QueuePlan, ...]
    bindings: tuple[BindingPlan, ...]
    foreign_exchanges: tuple[str, ...] = ()  #: the user's: have to exist, never declared

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def needs_consistent_hash(self) -> bool:
        """Whether the plugin has to be enabled."""
        return any(exchange.type == HASH_TYPE for exchange in self.exchanges)

    def lines(self) -> tuple[str, ...]:
        """Return one line of text per foreign exchange, exchange, queue and binding."""
        foreign = (f"foreign exchange {name}" for name in self.foreign_exchanges)
        parts: Iterable[object] = (*self.exchanges, *self.queues, *self.bindings)
        return (*foreign, *map(str, parts))

    def diff(self, other: Plan) -> tuple[str, ...]:
        """Return what changes from this plan to *other*: lines with ``- `` and ``+ ``, none if equal."""
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
    expected: object  #: in the plan; ``none`` when the plan has none
    found: object  #: on the broker; ``none`` when it has none

    def __str__(self) -> str:
        return f"{self.argument} is {self.found} on the broker, {self.expected} in the plan"


def _line(head: str, arguments: Arguments) -> str:
    return " ".join((head, *(f"{name}={value}" for name, value in arguments)))


def build_plan(spec: TopologySpec) -> Plan:
    """Return the plan for *spec*: the same text for the same settings.

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
        ExchangePlan(names.dlx, "topic"),
        ExchangePlan(names.due, "topic", (("alternate-exchange", names.stray),)),
        ExchangePlan(names.wait, "topic"),
        lanes,
        ExchangePlan(names.route, "headers", (("alternate-exchange", names.lanes),)),
        ExchangePlan(names.events, "topic"),
        ExchangePlan(names.control, "fanout"),
        ExchangePlan(names.ops, "topic"),
    )


def _queues(spec: TopologySpec) -> tuple[QueuePlan, ...]:
    names = spec.names
    net = _dead_letters(names.dlx, RAW_KEY)
    work = {**net, "x-delivery-limit": spec.delivery_limit}
    browsed = {"x-delivery-limit": spec.browse_limit}
    parked = {
        **_dead_letters(names.expired),
        **browsed,
        "x-max-length": spec.parked_max_length,
        "x-message-ttl": to_ms(spec.parked_ttl_s),
    }
    ends = (names.overflow, names.expired, names.stray)
    return (
        *(_queue(spec, name, browsed) for name in ends),
        _queue(spec, names.parked, parked, {"x-max-length", "x-message-ttl"}),
        _queue(spec, names.suspect, {**net, "x-delivery-limit": spec.suspect_limit}),
        *(_queue(spec, name, work) for name in _work_queues(spec)),
        *(
            _queue(spec, names.rung(rung_s), {**_dead_letters(names.due), "x-message-ttl": to_ms(rung_s)})
            for rung_s in spec.rungs_s
        ),
    )


def _work_queues(spec: TopologySpec) -> tuple[str, ...]:
    names = spec.names
    return (
        *_due_targets(spec),
        *(names.lane(index) for index in range(spec.lanes)),
        *(names.inbox(source.name) for source in spec.sources if not source.direct),
    )


def _due_targets(spec: TopologySpec) -> tuple[str, ...]:
    names = spec.names
    return (
        *(names.due_queue(index) for index in range(spec.due_queues)),
        names.replay,
        *(names.spill(index) for index in range(spec.spill_queues)),
    )


def _dead_letters(exchange: str, routing_key: str | None = None) -> dict[str, Argument]:
    """Return the arguments of a queue whose dead letters are confirmed before they leave it."""
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
    """Build one queue for the queue type; what a classic queue does not know is left out."""
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
        BindingPlan(names.dlx, names.parked, "queue", PARKED_PATTERN),
        BindingPlan(names.dlx, names.overflow, "queue", RAW_KEY),
        BindingPlan(names.dlx, names.overflow, "queue", REFUSED_PATTERN),
        BindingPlan(names.dlx, names.suspect, "queue", SUSPECT_KEY),
        *(BindingPlan(names.due, name, "queue", names.due_pattern(name)) for name in _due_targets(spec)),
        *(
            BindingPlan(names.wait, names.rung(rung_s), "queue", names.rung_pattern(rung_s))
            for rung_s in spec.rungs_s
        ),
        *(
            BindingPlan(names.lanes, names.lane(index), "queue", "1" if spec.consistent_hash else "")
            for index in range(spec.lanes)
        ),
        BindingPlan(names.events, names.route, "exchange", "#"),
        *(_source_binding(names, source) for source in spec.sources),
    )


def _source_binding(names: Names, source: SourceSpec) -> BindingPlan:
    if source.direct:
        return BindingPlan(source.exchange, names.events, "exchange", source.routing_key)
    return BindingPlan(source.exchange, names.inbox(source.name), "queue", source.routing_key)


def sized_queues(spec: TopologySpec) -> tuple[tuple[str, str], ...]:
    """Return every queue whose size is looked at, with the kind that it is counted under."""
    names = spec.names
    named: list[tuple[Callable[[int], str], int, str]] = [
        (names.lane, spec.lanes, "lane"),
        (names.due_queue, spec.due_queues, "due"),
        (names.spill, spec.spill_queues, "spill"),
    ]
    queues = [(name(i), label) for name, count, label in named for i in range(count)]
    queues += [(names.rung(rung_s), "wait") for rung_s in spec.rungs_s]
    single = ("replay", "suspect", "overflow", "parked", "expired", "stray")
    return tuple(queues + [(getattr(names, label), label) for label in single])
