"""Write a plan for other tools: RabbitMQ definitions JSON, and a Mermaid graph.

Data flow: Plan -> definitions -> `rabbitmqctl import_definitions` or the management API; Plan -> mermaid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from topology.plan import BindingPlan, ExchangePlan, Plan, QueuePlan

_NUMBERED = re.compile(r"(?P<family>.+\.(?:lane|due|spill|wait))\.(?P<number>\d+)")


def definitions(plan: Plan, vhost: str | None = None) -> dict[str, Any]:
    """Return *plan* as RabbitMQ definitions, ready for JSON.

    Args:
        plan: The wanted state of the broker.
        vhost: Name of the virtual host for every entry, which ``rabbitmqctl import_definitions`` requires;
            ``None`` omits it, which the management API requires for one virtual host.

    Returns:
        A mapping with ``exchanges``, ``queues`` and ``bindings``, without exchanges of the user and without
        the result of :func:`inexpressible`.

    Source: RabbitMQ "Schema Definition Export and Import".
    """
    where = {} if vhost is None else {"vhost": vhost}
    return {
        "exchanges": [{**_exchange(exchange), **where} for exchange in plan.exchanges],
        "queues": [{**_queue(queue), **where} for queue in plan.queues],
        "bindings": [
            {**_binding(binding), **where} for binding in plan.bindings if None not in _values(binding)
        ],
    }


def inexpressible(plan: Plan) -> tuple[BindingPlan, ...]:
    """Return the bindings that definitions cannot express: their JSON has no form of AMQP's void.

    Source: tried on 3.10.8 and 4.0.5: an import with ``null`` is refused, and an export contains
    ``"undefined"``, which is imported as text.
    """
    return tuple(binding for binding in plan.bindings if None in _values(binding))


def _values(binding: BindingPlan) -> tuple[object, ...]:
    return tuple(value for _, value in binding.arguments)


def _exchange(exchange: ExchangePlan) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": dict(exchange.arguments),
    }


def _queue(queue: QueuePlan) -> dict[str, Any]:
    return {
        "name": queue.name,
        "durable": True,
        "auto_delete": False,
        "arguments": dict(queue.arguments),
    }


def _binding(binding: BindingPlan) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": dict(binding.arguments),
    }


def mermaid(plan: Plan) -> str:
    """Return *plan* as a Mermaid flowchart; queues that differ only in their number are one node.

    Solid arrows are bindings, labelled with their keys; dotted ones are dead-letter and alternate exchanges.
    """
    nodes: dict[str, str] = {}
    for name in plan.foreign_exchanges:
        nodes[_key("exchange", name)] = f'{{{{"{name}"}}}}'
    for exchange in plan.exchanges:
        nodes[_key("exchange", exchange.name)] = f'{{{{"{exchange.name}<br/>{exchange.type}"}}}}'
    families = _families(plan)
    for queue in plan.queues:
        family = _family(queue.name)
        count = families[family]
        label = family if count == 1 else f"{family}<br/>{count} queues"
        nodes[_key("queue", family)] = f'[("{label}")]'
    ids = {key: f"n{index}" for index, key in enumerate(nodes)}
    lines = [f"    {ids[key]}{shape}" for key, shape in nodes.items()]
    edges = dict.fromkeys(
        f"    {ids[start]} {arrow} {ids[end]}" for start, arrow, end in _edges(plan) if end in ids
    )
    return "\n".join(("flowchart LR", *lines, *edges)) + "\n"


def _key(kind: str, name: str) -> str:
    return f"{kind} {name}"


def _family(name: str) -> str:
    """Return one name for all numbered queues of a kind: ``leveret.wait.250`` -> ``leveret.wait.N``."""
    match = _NUMBERED.fullmatch(name)
    return f"{match['family']}.N" if match else name


def _families(plan: Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for queue in plan.queues:
        counts[_family(queue.name)] = counts.get(_family(queue.name), 0) + 1
    return counts


def _edges(plan: Plan) -> Iterator[tuple[str, str, str]]:
    for binding in plan.bindings:
        end = _family(binding.destination) if binding.destination_type == "queue" else binding.destination
        label = re.sub(r"^\d+\.#$", "MS.#", _family(binding.routing_key))
        arrow = f'-->|"{label}"|' if label else "-->"
        yield _key("exchange", binding.source), arrow, _key(binding.destination_type, end)
    for exchange in plan.exchanges:
        yield from _dotted("exchange", exchange.name, dict(exchange.arguments), "alternate-exchange")
    for queue in plan.queues:
        yield from _dotted("queue", _family(queue.name), dict(queue.arguments), "x-dead-letter-exchange")


def _dotted(kind: str, name: str, arguments: Mapping[str, Any], which: str) -> Iterator[tuple[str, str, str]]:
    if which in arguments:
        label = (
            "unroutable" if kind == "exchange" else arguments.get("x-dead-letter-routing-key", "dead letters")
        )
        yield _key(kind, name), f'-.->|"{label}"|', _key("exchange", str(arguments[which]))
