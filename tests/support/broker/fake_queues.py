"""The exchanges and queues of the fake broker: routing, returns, delivery limits, dead letters.

Data flow: publish -> :meth:`Topology.routed` -> :class:`FakeQueue` -> a consumer -> settled or returned.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pamqp.commands import Basic

from tests.support.broker.behaviour import Behaviour


@dataclass(slots=True, eq=False)
class Stored:
    """One message in a queue, or on its way to a consumer."""

    body: bytes
    properties: Basic.Properties
    exchange: str
    routing_key: str
    acquired: int = 0  #: how often a consumer had it and did not settle it
    failures: int = 0  #: how many of those times count towards the delivery limit

    def shown(self, behaviour: Behaviour) -> Basic.Properties:
        """Return the properties that a consumer gets: a count replaces one of the publisher, if there is one.

        Source: RabbitMQ, ``rabbit_fifo_client:add_delivery_count_header`` of 4.0 and of 4.3.
        """
        if not self.acquired:
            return self.properties
        shown = deepcopy(self.properties)
        headers = dict(shown.headers or {})
        if behaviour.counts_nacks:
            headers["x-delivery-count"] = self.acquired
        else:
            headers["x-acquired-count"] = self.acquired
            if self.failures:
                headers["x-delivery-count"] = self.failures
        shown.headers = headers
        return shown


@dataclass(slots=True, eq=False)
class FakeQueue:
    """A quorum queue, or an exclusive one."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    owner: object | None = None  #: the connection of an exclusive queue
    ready: deque[Stored] = field(default_factory=deque)
    delayed: list[Stored] = field(default_factory=list)  #: returned, and not ready before their delay ends
    dead: list[Stored] = field(default_factory=list)  #: over the delivery limit, with nowhere to go
    consumers: list[Any] = field(default_factory=list)
    leaving: list[Any] = field(default_factory=list)  #: cancelled consumers; they count until all is settled

    def readers(self) -> int:
        """Return the number of consumers, with the cancelled ones that still have messages."""
        return len(self.consumers) + len([one for one in self.leaving if one.in_hand])


@dataclass(slots=True)
class Topology:
    """The state of one virtual host."""

    behaviour: Behaviour
    queues: dict[str, FakeQueue] = field(default_factory=dict)
    exchanges: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)  #: type, arguments
    bindings: list[tuple[str, str, str]] = field(default_factory=list)  #: source, destination, routing key
    has_quorum: bool = True  #: whether quorum queues take messages

    def route(self, message: Stored) -> bool:
        """Put *message* into every queue that it is routed to; return whether there is one."""
        found = {queue.name: queue for queue in self.routed(message.exchange, message.routing_key)}
        for queue in found.values():
            copy = Stored(message.body, message.properties, message.exchange, message.routing_key)
            queue.ready.append(copy)
        return bool(found)

    def takes(self, message: Stored) -> bool:
        """Return whether *message* can be confirmed now: no quorum queue without a quorum is to take it."""
        needs = (queue.owner is None for queue in self.routed(message.exchange, message.routing_key))
        return self.has_quorum or not any(needs)

    def routed(self, exchange: str, key: str) -> Iterator[FakeQueue]:
        """Yield the queues; a headers exchange matches nothing, a hash exchange takes its first queue."""
        if not exchange:
            if key in self.queues:
                yield self.queues[key]
            return
        kind, arguments = self.exchanges[exchange]
        bound = [d for source, d, wanted in self.bindings if source == exchange and _fits(kind, wanted, key)]
        for destination in bound[:1] if kind == "x-consistent-hash" else bound:
            if destination in self.queues:
                yield self.queues[destination]
            else:
                yield from self.routed(destination, key)
        other = arguments.get("alternate-exchange")
        if not bound and other:
            yield from self.routed(other, key)

    def returned(self, queue: FakeQueue, message: Stored, *, failed: bool) -> None:
        """Put *message* back, or dead-letter it beyond the delivery limit."""
        message.acquired += 1
        message.failures += failed or self.behaviour.counts_nacks
        limit = queue.arguments.get("x-delivery-limit")
        if limit is not None and message.failures > limit:
            self._die(queue, message)
        elif self.behaviour.delays_returns:
            queue.delayed.append(message)
        else:
            queue.ready.appendleft(message)

    def delete(self, queue: FakeQueue) -> None:
        """Delete *queue* and all of its messages."""
        del self.queues[queue.name]
        for consumer in [*queue.consumers, *queue.leaving]:
            consumer.channel.lose(consumer)

    def _die(self, queue: FakeQueue, message: Stored) -> None:
        exchange = queue.arguments.get("x-dead-letter-exchange")
        key = queue.arguments.get("x-dead-letter-routing-key", message.routing_key)
        if exchange is None or not self.route(Stored(message.body, message.properties, exchange, key)):
            queue.dead.append(message)


def _fits(kind: str, wanted: str, key: str) -> bool:
    if kind == "headers":
        return False
    if kind != "topic":
        return True
    words = [r"[^.]+" if word == "*" else re.escape(word) for word in wanted.split(".")]
    pattern = r"\.".join(words).replace(r"\.\#", r"(\..*)?").replace(r"\#\.", r"(.*\.)?").replace(r"\#", ".*")
    return re.fullmatch(pattern, key) is not None
