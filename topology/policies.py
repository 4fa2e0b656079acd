"""What a policy of the broker's does to a queue or exchange of ours: definition -> faults.

A policy and an argument for the same thing are merged by the broker: for TTL, lengths and delivery limit the
smaller one holds, for ``overflow`` the policy holds, for dead-letter settings the argument holds where there
is one.
Source: rabbitmq-server 3.10, rabbit_quorum_queue:gather_policy_config and rabbit_queue_type_util.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topology.plan import ExchangePlan, QueuePlan


@dataclass(frozen=True, slots=True)
class PolicyFault:
    """What one key of a policy does.

    Attributes:
        breaks: True: messages are lost, early, stuck or go astray; False: a limit differs from the settings.
    """

    text: str
    breaks: bool


def queue_policy_faults(queue: QueuePlan, definition: Mapping[str, Any]) -> Iterator[PolicyFault]:
    """Yield what the effective policy *definition* does to *queue*, sorted by key; none when harmless."""
    arguments = dict(queue.arguments)
    for key in sorted(definition):
        rule = _QUEUE_RULES.get(key)
        fault = rule(arguments, definition[key]) if rule else None
        if fault is not None:
            yield fault


def exchange_policy_faults(exchange: ExchangePlan, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the policy *definition* does to *exchange*; none when harmless."""
    other = definition.get("alternate-exchange")
    swallows = exchange.name.endswith((".wait", ".dlx"))
    if other is not None and swallows and "alternate-exchange" not in dict(exchange.arguments):
        yield f"gives it the alternate exchange {other}: what cannot be routed is not returned but goes there"


def _overflow(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    mine = arguments.get("x-overflow")
    if mine is None or value == mine:
        return None
    return PolicyFault(f"sets overflow {value} and beats {mine}", breaks=True)


def _message_ttl(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    mine = arguments.get("x-message-ttl")
    if mine is None:
        return PolicyFault(f"sets message-ttl {value} on a queue that keeps its messages", breaks=True)
    if value >= mine:
        return None
    return PolicyFault(f"shortens message-ttl from {mine} to {value}", breaks="x-max-length" not in arguments)


def _length(key: str) -> Callable[[Mapping[str, Any], Any], PolicyFault | None]:
    def rule(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
        mine = arguments.get("x-max-length")
        if mine is None:
            return PolicyFault(f"sets {key} {value} on a queue that has no length limit", breaks=True)
        if key == "max-length" and value >= mine:
            return None
        return PolicyFault(f"sets {key} {value} beside max-length {mine}", breaks=False)

    return rule


def _expires(_arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    return PolicyFault(f"sets expires {value}: the broker deletes the queue when it is unused", breaks=True)


def _delivery_limit(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    mine = arguments.get("x-delivery-limit")
    if mine is None or value >= mine:
        return None
    return PolicyFault(f"lowers delivery-limit from {mine} to {value}", breaks=value < min(mine, 1_000))


def _dead_letter_exchange(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if "x-dead-letter-exchange" in arguments:
        return None
    return PolicyFault(f"sets dead-letter-exchange {value} on a queue that needs none", breaks=False)


def _dead_letter_key(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if "x-dead-letter-exchange" not in arguments or "x-dead-letter-routing-key" in arguments:
        return None
    return PolicyFault(f"sets dead-letter-routing-key {value}: dead letters go astray", breaks=True)


_QUEUE_RULES: Mapping[str, Callable[[Mapping[str, Any], Any], PolicyFault | None]] = {
    "overflow": _overflow,
    "message-ttl": _message_ttl,
    "max-length": _length("max-length"),
    "max-length-bytes": _length("max-length-bytes"),
    "expires": _expires,
    "delivery-limit": _delivery_limit,
    "dead-letter-exchange": _dead_letter_exchange,
    "dead-letter-routing-key": _dead_letter_key,
}
