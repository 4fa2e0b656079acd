"""One channel of the fake broker: declarations, consumers, settling, publishing.

Data flow: method of the client -> :meth:`FakeChannel.handle` -> answers through ``send``; a message goes out
by :meth:`FakeChannel.deliver`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pamqp import base
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue
from pamqp.header import ContentHeader

from tests.support.broker.fake_queues import FakeQueue, Stored, Topology
from topology.permissions import Permissions

EVERYTHING = Permissions(".*", ".*", ".*")


class Refused(Exception):
    """The broker closes the channel, or with *whole* the connection."""

    def __init__(self, code: int, text: str, *, whole: bool = False) -> None:
        super().__init__(f"{code} {text}")
        self.code, self.text, self.whole = code, text, whole


@dataclass(slots=True, eq=False)
class Consumer:
    """One consumer of a channel."""

    tag: str
    queue: FakeQueue
    channel: FakeChannel
    no_ack: bool
    prefetch: int
    timed_out: bool = False
    in_hand: int = 0

    def takes(self) -> bool:
        """Return whether it may get a message now."""
        return not self.timed_out and (self.no_ack or not self.prefetch or self.in_hand < self.prefetch)


@dataclass(slots=True, eq=False)
class FakeChannel:
    """The state of one open channel."""

    topology: Topology
    rights: Callable[[], Permissions]
    send: Callable[[Any], None]
    owner: object
    seen: list[base.Frame] = field(default_factory=list)  #: methods of the client, shared by all channels
    consumers: dict[str, Consumer] = field(default_factory=dict)
    unacked: dict[int, tuple[Consumer, Stored]] = field(default_factory=dict)
    reclaimed: set[int] = field(default_factory=set)  #: tags whose time ran out; late acks are ignored
    _tag: int = 0
    _prefetch: int = 0
    _confirms: bool = False
    _without_quorum: list[tuple[int, Stored]] = field(default_factory=list)  #: publishes, by delivery tag
    _published: int = 0
    _incoming: tuple[Basic.Publish, ContentHeader, bytes] | None = None
    _method: Basic.Publish | None = None

    def handle(self, frame: Any) -> None:
        """Answer one frame.

        Raises:
            Refused: the broker closes the channel or the connection.
        """
        if isinstance(frame, base.Frame):
            self.seen.append(frame)
        match frame:
            case Queue.Declare() | Queue.Delete() | Queue.Bind() | Queue.Unbind():
                self._queue(frame)
            case Exchange.Declare() | Exchange.Bind() | Exchange.Unbind():
                self._exchange(frame)
            case Basic.Publish():
                self._method = frame
            case ContentHeader() | ContentBody():
                self._content(frame)
            case Confirm.Select():
                self._confirms = True
                self.send(Confirm.SelectOk())
            case _:
                self._consuming(frame)

    def deliver(self, consumer: Consumer, message: Stored) -> None:
        """Send one message to a consumer of this channel."""
        self._tag += 1
        deliver = Basic.Deliver(
            consumer.tag, self._tag, message.acquired > 0, message.exchange, message.routing_key
        )
        properties = message.shown(self.topology.behaviour)
        for part in (deliver, ContentHeader(0, len(message.body), properties), ContentBody(message.body)):
            if not isinstance(part, ContentBody) or message.body:
                self.send(part)
        if not consumer.no_ack:
            self.unacked[self._tag] = (consumer, message)
            consumer.in_hand += 1

    def time_out(self, queue: str) -> None:
        """Play the consumer time-out for all messages of *queue* that this channel has not settled."""
        if not self.topology.behaviour.cancels_on_timeout:
            raise Refused(406, "PRECONDITION_FAILED - delivery acknowledgement on channel timed out")
        for consumer in [one for one in self.consumers.values() if one.queue.name == queue]:
            consumer.timed_out = True
            for tag in [tag for tag, (owner, _) in self.unacked.items() if owner is consumer]:
                self.reclaimed.add(tag)
                self._return(tag, failed=False)
            self.send(Basic.Cancel(consumer.tag, nowait=True))

    def lose(self, consumer: Consumer) -> None:
        """Cancel a consumer whose queue was deleted: its messages are gone."""
        self.consumers.pop(consumer.tag, None)
        for tag in [tag for tag, (owner, _) in self.unacked.items() if owner is consumer]:
            del self.unacked[tag]
            self.reclaimed.add(tag)
        self.send(Basic.Cancel(consumer.tag, nowait=True))

    def regain_quorum(self) -> None:
        """Route and confirm the publishes that no quorum took."""
        waiting, self._without_quorum = self._without_quorum, []
        for tag, message in waiting:
            self.topology.route(message)
            self.send(Basic.Ack(tag))

    def close(self) -> None:
        """Return everything in hand: to lose its consumer counts as a failure of a message."""
        for consumer in self.consumers.values():
            if consumer in consumer.queue.consumers:
                consumer.queue.consumers.remove(consumer)
        for tag in sorted(self.unacked, reverse=True):
            self._return(tag, failed=True)

    def _return(self, tag: int, *, failed: bool) -> None:
        consumer, message = self.unacked.pop(tag)
        consumer.in_hand -= 1
        self.topology.returned(consumer.queue, message, failed=failed)

    def _consuming(self, frame: Any) -> None:
        behaviour = self.topology.behaviour
        match frame:
            case Basic.Qos():
                if frame.global_ and not behaviour.permits_global_qos:
                    raise Refused(541, "INTERNAL_ERROR - Feature `global_qos` is deprecated.", whole=True)
                self._prefetch = frame.prefetch_count
                self.send(Basic.QosOk())
            case Basic.Consume():
                queue = self._found(frame.queue)
                self._demand("read", queue.name)
                consumer = Consumer(frame.consumer_tag, queue, self, frame.no_ack, self._prefetch)
                self.consumers[consumer.tag] = consumer
                queue.consumers.append(consumer)
                self.send(Basic.ConsumeOk(consumer.tag))
            case Basic.Cancel():
                self._forget(frame.consumer_tag)
                self.send(Basic.CancelOk(frame.consumer_tag))
            case Basic.CancelOk():
                if not behaviour.accepts_cancel_ok:
                    raise Refused(540, "NOT_IMPLEMENTED - basic.cancel-ok of a client", whole=True)
                self._forget(frame.consumer_tag)
            case Basic.Ack() | Basic.Nack() | Basic.Reject():
                self._settle(frame)
            case _:
                raise Refused(540, f"NOT_IMPLEMENTED - {frame.name}", whole=True)

    def _forget(self, tag: str | None) -> None:
        consumer = self.consumers.pop(tag or "", None)
        if consumer is not None and consumer in consumer.queue.consumers:
            consumer.queue.consumers.remove(consumer)
            consumer.queue.leaving.append(consumer)

    def _settle(self, frame: Basic.Ack | Basic.Nack | Basic.Reject) -> None:
        last = frame.delivery_tag
        many = not isinstance(frame, Basic.Reject) and frame.multiple
        known = [tag for tag in sorted(self.unacked) if tag == last or (many and (not last or tag < last))]
        if not known and last and last not in self.reclaimed:
            raise Refused(406, f"PRECONDITION_FAILED - unknown delivery tag {last}")
        for tag in known if isinstance(frame, Basic.Ack) else reversed(known):
            if isinstance(frame, Basic.Ack):
                consumer, _ = self.unacked.pop(tag)
                consumer.in_hand -= 1
            else:
                self._return(tag, failed=isinstance(frame, Basic.Reject))

    def _queue(self, frame: Queue.Declare | Queue.Delete | Queue.Bind | Queue.Unbind) -> None:
        match frame:
            case Queue.Declare():
                self._declare(frame)
                return
            case Queue.Delete():
                self.topology.delete(self._found(frame.queue))
                answer: base.Frame = Queue.DeleteOk(0)
            case Queue.Bind():
                self._demand("write", frame.queue)
                self.topology.bindings.append((frame.exchange, frame.queue, frame.routing_key))
                answer = Queue.BindOk()
            case Queue.Unbind():
                answer = Queue.UnbindOk()
        self.send(answer)

    def _declare(self, frame: Queue.Declare) -> None:
        queues, behaviour = self.topology.queues, self.topology.behaviour
        name = frame.queue
        if frame.passive:
            self._demand_passive(name)
        else:
            self._demand("configure", name)
            if not (frame.durable or frame.exclusive or behaviour.permits_transient):
                text = "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated."
                raise Refused(541, text, whole=True)
            owner = self.owner if frame.exclusive else None
            queues.setdefault(name, FakeQueue(name, dict(frame.arguments or {}), owner))
        queue = self._found(name)
        if queue.owner not in (None, self.owner):
            raise Refused(405, f"RESOURCE_LOCKED - queue '{name}'")
        self.send(Queue.DeclareOk(name, len(queue.ready), queue.readers()))

    def _exchange(self, frame: Exchange.Declare | Exchange.Bind | Exchange.Unbind) -> None:
        topology = self.topology
        match frame:
            case Exchange.Declare() if frame.passive:
                self._demand_passive(frame.exchange)
                if frame.exchange not in topology.exchanges:
                    raise Refused(404, f"NOT_FOUND - no exchange '{frame.exchange}' in vhost '/'")
                answer: base.Frame = Exchange.DeclareOk()
            case Exchange.Declare():
                self._demand("configure", frame.exchange)
                topology.exchanges[frame.exchange] = (frame.exchange_type, dict(frame.arguments or {}))
                answer = Exchange.DeclareOk()
            case Exchange.Bind():
                topology.bindings.append((frame.source, frame.destination, frame.routing_key))
                answer = Exchange.BindOk()
            case Exchange.Unbind():
                answer = Exchange.UnbindOk()
        self.send(answer)

    def _content(self, frame: ContentHeader | ContentBody) -> None:
        if isinstance(frame, ContentHeader):
            if self._method is None:
                raise Refused(505, "UNEXPECTED_FRAME - a header without a publish", whole=True)
            self._incoming = (self._method, frame, b"")
        elif self._incoming is not None:
            method, header, body = self._incoming
            self._incoming = (method, header, body + frame.value)
        if self._incoming is not None and len(self._incoming[2]) >= self._incoming[1].body_size:
            self._publish(*self._incoming)
            self._incoming = self._method = None

    def _publish(self, method: Basic.Publish, header: ContentHeader, body: bytes) -> None:
        if method.exchange:
            self._demand("write", method.exchange)
            if method.exchange not in self.topology.exchanges:
                raise Refused(404, f"NOT_FOUND - no exchange '{method.exchange}' in vhost '/'")
        self._published += 1
        message = Stored(body, header.properties, method.exchange, method.routing_key)
        if not self.topology.takes(message):
            self._without_quorum.append((self._published, message))
            return
        if not self.topology.route(message) and method.mandatory:
            self.send(Basic.Return(312, "NO_ROUTE", method.exchange, method.routing_key))
            self.send(ContentHeader(0, 0, header.properties))
        if self._confirms:
            self.send(Basic.Ack(self._published))

    def _found(self, name: str) -> FakeQueue:
        queue = self.topology.queues.get(name)
        if queue is None:
            raise Refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'")
        return queue

    def _demand(self, right: str, name: str) -> None:
        if not re.search(getattr(self.rights(), right), name):
            raise Refused(403, f"ACCESS_REFUSED - {right} access to '{name}' refused")

    def _demand_passive(self, name: str) -> None:
        needs, rights = self.topology.behaviour.passive_needs, self.rights()
        wanted = {"nothing": (), "configure": (rights.configure,)}.get(
            needs, (rights.configure, rights.write, rights.read)
        )
        if wanted and not any(re.search(pattern, name) for pattern in wanted):
            raise Refused(403, f"ACCESS_REFUSED - access to '{name}' refused")


def closing(refused: Refused) -> Channel.Close:
    """Return the frame that closes a channel for a refusal."""
    return Channel.Close(refused.code, refused.text, 0, 0)
