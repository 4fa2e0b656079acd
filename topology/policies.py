"""Effects of a broker policy on a queue or exchange of ours: definition -> faults.

The broker merges a policy and an argument for the same property. For TTL, lengths and delivery limit the
smaller value applies. For ``overflow`` the policy applies. For dead-letter settings the argument applies if
there is one. Source: RabbitMQ "Policies"; overflow, message TTL and dead-letter key tried on quorum queues of
3.10.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topology.plan import ExchangePlan, QueuePlan

CONSUMER_TIMEOUT_MS = 1_200_000
"""Twice the default of ``[windows] give_back_s``, after which a worker gives back what it did not start."""


@dataclass(frozen=True, slots=True)
class PolicyFault:
    """The effect of one key of a policy.

    Attributes:
        breaks: True: messages are lost, early, stuck or misrouted; False: a limit differs from the settings.
    """

    text: str
    breaks: bool


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy and the operator policy that apply to one name, merged."""

    names: str  #: names of both, for the operator
    definition: Mapping[str, Any]


def effective_policy(
    name: str, kind: str, policies: Sequence[Mapping[str, Any]], operators: Sequence[Mapping[str, Any]]
) -> EffectivePolicy:
    """Return the policy that applies to *name*, now or once it exists.

    Of each sort, only the matching policy with the highest priority applies. If both sorts set a number, the
    smaller one applies, otherwise the operator's value.

    Args:
        name: Name of a queue or exchange.
        kind: ``exchanges``, ``quorum_queues`` or ``classic_queues``.
        policies: Records with ``name``, ``pattern``, ``apply-to``, ``priority`` and ``definition``.
        operators: The operator policies, in the same form.

    Source: RabbitMQ "Policies", on operator policies.
    """
    matches = [match for match in (_first(name, kind, policies), _first(name, kind, operators)) if match]
    merged: dict[str, Any] = {}
    for match in matches:
        for key, value in match["definition"].items():
            both = isinstance(value, int) and isinstance(merged.get(key), int)
            merged[key] = min(value, merged[key]) if both else value
    return EffectivePolicy(" and ".join(str(match["name"]) for match in matches), merged)


def _first(name: str, kind: str, policies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    applies = {"all", kind, "exchanges" if kind == "exchanges" else "queues"}
    matching = [
        policy for policy in policies if policy["apply-to"] in applies and _matches(policy["pattern"], name)
    ]
    return max(matching, key=lambda policy: int(policy["priority"]), default=None)


def _matches(pattern: str, name: str) -> bool:
    """Match as the broker does. A pattern that only PCRE understands counts as a match, to be inspected."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def queue_policy_faults(queue: QueuePlan, definition: Mapping[str, Any]) -> Iterator[PolicyFault]:
    """Yield the faults that the effective policy *definition* causes for *queue*, sorted by key."""
    arguments = dict(queue.arguments)
    for key in sorted(definition):
        rule = _QUEUE_RULES.get(key)
        fault = rule(arguments, definition[key]) if rule else None
        if fault is not None:
            yield fault


def exchange_policy_faults(exchange: ExchangePlan, definition: Mapping[str, Any]) -> Iterator[PolicyFault]:
    """Yield the faults that the policy *definition* causes for *exchange*."""
    other = definition.get("alternate-exchange")
    expects_returns = exchange.name.endswith((".wait", ".dlx"))
    if other is not None and expects_returns and "alternate-exchange" not in dict(exchange.arguments):
        text = f"sets alternate-exchange {other}: unroutable messages go there instead of being returned"
        yield PolicyFault(text, breaks=True)


def _overflow(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    mine = arguments.get("x-overflow")
    if mine is None or value == mine:
        return None
    return PolicyFault(f"sets overflow {value} and overrides {mine}", breaks=True)


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


def _delayed_retry(_arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if value == "disabled":
        return None
    text = f"sets delayed-retry-type {value}: messages that Leveret gives back stay hidden for the delay"
    return PolicyFault(text, breaks=value != "failed")


def _consumer_timeout(_arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if value >= CONSUMER_TIMEOUT_MS:
        return None
    text = f"sets consumer-timeout {value}: what waits longer in a worker is sent again"
    return PolicyFault(f"{text}; Leveret needs at least {CONSUMER_TIMEOUT_MS}", breaks=False)


def _dead_letter_exchange(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if "x-dead-letter-exchange" in arguments:
        return None
    return PolicyFault(f"sets dead-letter-exchange {value} on a queue that needs none", breaks=False)


def _dead_letter_key(arguments: Mapping[str, Any], value: Any) -> PolicyFault | None:
    if "x-dead-letter-exchange" not in arguments or "x-dead-letter-routing-key" in arguments:
        return None
    return PolicyFault(f"sets dead-letter-routing-key {value}: dead letters are misrouted", breaks=True)


_QUEUE_RULES: Mapping[str, Callable[[Mapping[str, Any], Any], PolicyFault | None]] = {
    "overflow": _overflow,
    "message-ttl": _message_ttl,
    "max-length": _length("max-length"),
    "max-length-bytes": _length("max-length-bytes"),
    "expires": _expires,
    "delivery-limit": _delivery_limit,
    "delayed-retry-type": _delayed_retry,
    "consumer-timeout": _consumer_timeout,
    "dead-letter-exchange": _dead_letter_exchange,
    "dead-letter-routing-key": _dead_letter_key,
}
