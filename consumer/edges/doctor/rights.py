"""Try the rights of the broker's user without any effect on the broker.

RabbitMQ checks the right of an operation before its arguments. So each operation is sent with an argument
that the broker refuses, or in a form that has no effect:

    write to an exchange    publish with an expiration that is not a number
    read a queue            consume with a priority that is a text
    configure               declare with a dead-letter or alternate exchange that is a number
    bind                    remove a binding that does not exist: write on its destination, read on its source

``ACCESS_REFUSED`` then means that the right is missing. Every other answer means that it is there.

Source: rabbitmq-server, rabbit_channel.erl: ``basic.publish`` (``check_write_permitted`` before
``check_expiration_header``), ``basic.consume`` (``check_read_permitted`` before the arguments),
``queue.declare`` and ``exchange.declare`` (``check_configure_permitted`` before the arguments),
``binding_action`` (``check_write_permitted``, ``check_read_permitted``, then the look-up).
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel as Wire
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ConnectionCommandInvalid
from pamqp.common import FieldValue

from consumer.edges.broker.connection.connect import underlay
from topology.names import Names
from topology.plan import HASH_TYPE, BindingPlan, Plan
from topology.wire import Channels

CALL_S: Final = 5.0  #: longest wait for one answer; under an alarm the broker reads nothing after a publish

READY_S: Final = 0.1  #: longest wait for a connection that is not blocked; it takes none

_CONFIGURE: Final = "configure "
_WRITE: Final = "write to "
_READ: Final = "read "
_REFUSED: Final = aiormq.spec.Basic.Properties(expiration="not a number", user_id="leveret doctor")
_QUEUE_REFUSED: Final[Mapping[str, FieldValue]] = {"x-dead-letter-exchange": 0, "x-expires": "not a number"}
_EXCHANGE_REFUSED: Final[Mapping[str, FieldValue]] = {"alternate-exchange": 0}

Send: TypeAlias = Callable[[Wire], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Try:
    """An operation that the broker refuses, and the right that it needs before."""

    right: str  #: such as ``write to leveret.wait``
    send: Send
    source: str = ""  #: of a binding: an exchange that it needs to read

    def missing(self, refusal: str) -> str:
        """Return the right that is missing, from the broker's text, which names the object."""
        is_source = self.source and f"exchange '{self.source}'" in refusal
        return f"{_READ}{self.source}" if is_source else self.right


class Blocked(Exception):
    """The broker has reported that it reads the connection no more, as while an alarm is raised.

    Source: RabbitMQ "Blocked Connection Notifications": it reports that after a publish.
    """


async def missing_rights(
    connection: AbstractConnection, plan: Plan, names: Names, *, declares: bool, call_s: float = CALL_S
) -> tuple[Sequence[str], int]:
    """Return the rights that the user lacks, such as ``write to leveret.wait``, and how many were tried.

    Where all rights of one kind are missing, one text such as ``configure leveret.*`` names them.

    Args:
        connection: An open connection of the user.
        plan: The plan with the queues to consume.
        names: Names of the exchanges to publish to.
        declares: Whether the worker declares the topology itself.
        call_s: Longest wait for one answer, in seconds.

    Raises:
        Blocked: the broker reported after a publish that it reads no more.
        TimeoutError: it does not answer.
    """
    channels = Channels(connection)
    tries = list(_tries(plan, names, declares=declares))
    missing = []
    for each in tries:
        try:
            refusal = await _refusal(channels, each.send, call_s)
        except TimeoutError:
            if await _is_blocked(connection):
                raise Blocked from None
            raise
        if refusal is not None:
            missing.append(each.missing(refusal))
    await channels.close()
    return _joined(missing, [each.right for each in tries], names.prefix), len(tries)


def _joined(missing: Iterable[str], tried: Sequence[str], prefix: str) -> Sequence[str]:
    """Return each missing right once, and one text for a kind of right that is missing everywhere."""
    found = list(dict.fromkeys(missing))
    for kind in (_CONFIGURE, _WRITE, _READ):
        of_kind = {right for right in tried if right.startswith(kind)}
        if len(of_kind) > 1 and of_kind <= set(found):
            found = [right for right in found if not right.startswith(kind)] + [f"{kind}{prefix}.*"]
    return found


async def knows_hash_exchanges(connection: AbstractConnection) -> bool:
    """Return whether the consistent-hash plugin is enabled; the broker may close the connection.

    The type of an existing exchange is checked before anything else, and a difference changes nothing.

    Raises:
        TimeoutError: the broker does not answer.
    """
    channels = Channels(connection)
    try:
        async with asyncio.timeout(CALL_S):
            wire = await channels.wire()
            await wire.exchange_declare("amq.direct", exchange_type=HASH_TYPE, durable=True)
    except ConnectionCommandInvalid:
        return False
    except AMQPError as error:
        return "unknown exchange type" not in str(error)
    return True


def _tries(plan: Plan, names: Names, *, declares: bool) -> Iterator[_Try]:
    """Yield what needs each right; a publish comes last, as it may block the connection."""
    rungs = f"{names.wait}."
    for queue in _one_of_each_family(queue.name for queue in plan.queues):
        if declares:
            yield _Try(f"{_CONFIGURE}{queue}", _declaring_queue(queue))
        if declares or not queue.startswith(rungs):  # nobody consumes a rung, but its declaration reads it
            yield _Try(f"{_READ}{queue}", _consuming(queue))
    published = [names.events, names.wait, names.due, names.dlx, names.control, names.ops, names.store]
    if declares:
        exchanges = [exchange.name for exchange in plan.exchanges]
        yield from (_Try(f"{_CONFIGURE}{name}", _declaring_exchange(name)) for name in exchanges)
        yield from _bindings(plan)
        published += [name for name in exchanges if name not in published]
    yield from (_Try(f"{_WRITE}{name}", _publishing(name)) for name in published)


def _bindings(plan: Plan) -> Iterator[_Try]:
    """Yield what needs the rights of each binding, one for those whose names differ only in numbers."""
    known = set[tuple[str, str]]()
    for binding in plan.bindings:
        pair = (_family(binding.destination), binding.source)
        if pair not in known:
            known.add(pair)
            yield _Try(f"{_WRITE}{binding.destination}", _unbinding(binding), binding.source)


def _family(name: str) -> str:
    """Return the common part of names that differ only in their number, tenant or source."""
    return re.sub(r"(?<=[.]dedicated)[.].+$|[.]\d+$", "", name)


def _one_of_each_family(names: Iterable[str]) -> Sequence[str]:
    """Return the first of those names that differ only in numbers."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(_family(name), name)
    return list(first.values())


def _declaring_queue(queue: str) -> Send:
    async def send(wire: Wire) -> None:
        await wire.queue_declare(queue, durable=True, arguments=dict(_QUEUE_REFUSED))

    return send


def _declaring_exchange(exchange: str) -> Send:
    async def send(wire: Wire) -> None:
        await wire.exchange_declare(exchange, durable=True, arguments=dict(_EXCHANGE_REFUSED))

    return send


def _unbinding(binding: BindingPlan) -> Send:
    key = f"leveret.doctor.{secrets.token_hex(8)}"

    async def send(wire: Wire) -> None:
        remove = wire.queue_unbind if binding.destination_type == "queue" else wire.exchange_unbind
        await remove(binding.destination, binding.source, key)

    return send


def _consuming(queue: str) -> Send:
    async def send(wire: Wire) -> None:
        await wire.basic_consume(queue, _ignore, arguments={"x-priority": "none"})

    return send


def _publishing(exchange: str) -> Send:
    async def send(wire: Wire) -> None:
        await wire.basic_publish(b"", exchange=exchange, routing_key="leveret.doctor", properties=_REFUSED)

    return send


async def _ignore(_message: DeliveredMessage) -> Any:
    """Settle nothing: the channel is closed at once, and the broker takes its messages back."""


async def _is_blocked(connection: AbstractConnection) -> bool:
    """Return whether the broker has reported that it reads no more; a slow one has not."""
    try:
        async with asyncio.timeout(READY_S):
            await underlay(connection).ready()
    except TimeoutError:
        return True
    return False


async def _refusal(channels: Channels, send: Send, call_s: float) -> str | None:
    """Return the broker's text about a missing right; None if it refuses for another reason, or not at all.

    Raises:
        TimeoutError: it does not answer.
    """
    try:
        async with asyncio.timeout(call_s):
            await send(await channels.wire())
            await channels.close()  # nothing was refused: leave no consumer behind
    except ChannelAccessRefused as error:
        return str(error)
    except AMQPError:  # the argument was refused, or the queue or exchange does not exist yet
        return None
    return None
