"""Try the rights of the broker's user without any effect on queues and messages.

RabbitMQ checks the right of an operation before its arguments. So each operation is sent with an argument
that the broker refuses: a publish with an expiration that is no number, a consumer with a priority that is
text. ``ACCESS_REFUSED`` then means that the right is missing, and ``PRECONDITION_FAILED`` that it is there.
Only an exclusive queue shows the right to configure; it ends with its channel.

Source: rabbitmq-server, rabbit_channel.erl, ``basic.publish`` (``check_write_permitted`` before
``check_expiration_header``) and ``basic.consume`` (``check_read_permitted`` before the arguments).
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel as Wire
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ConnectionCommandInvalid

from topology.names import Names
from topology.plan import HASH_TYPE, Plan
from topology.wire import Channels

CALL_S = 5.0  #: longest wait for one answer; a broker with an alarm stops to read after the first publish

_WRITE = "write to "
_REFUSED = aiormq.spec.Basic.Properties(expiration="not a number", user_id="leveret doctor")

Try: TypeAlias = Callable[[Wire], Awaitable[object]]


class Blocked(Exception):
    """The broker does not read the connection any more, as while an alarm is raised."""


async def missing_rights(
    connection: AbstractConnection, plan: Plan, names: Names, *, declares: bool
) -> tuple[Sequence[str], int]:
    """Return the rights that the user lacks, such as ``write to leveret.wait``, and how many were tried.

    Args:
        connection: An open connection of the user.
        plan: The plan with the queues to consume.
        names: Names of the exchanges to publish to.
        declares: Whether the worker declares the topology itself.

    Raises:
        Blocked: the broker stopped to read after a publish.
        TimeoutError: it does not answer.
    """
    channels = Channels(connection)
    missing, tried = [], 0
    for right, attempt in _attempts(plan, names, declares=declares):
        tried += 1
        try:
            if not await _is_granted(channels, attempt):
                missing.append(right)
        except TimeoutError:
            if right.startswith(_WRITE):
                raise Blocked from None
            raise
    await channels.close()
    return missing, tried


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


def _attempts(plan: Plan, names: Names, *, declares: bool) -> Iterator[tuple[str, Try]]:
    """Yield each right with the operation that needs it; those without a publish come first."""
    if declares:
        yield f"configure {names.prefix}.*", _configuring(f"{names.prefix}.doctor.{secrets.token_hex(4)}")
    seen: set[str] = set()
    for queue in plan.queues:
        family = re.sub(r"[.]\d+$", "", queue.name)
        if family not in seen and not queue.name.startswith(f"{names.wait}."):
            seen.add(family)
            yield f"read {queue.name}", _consuming(queue.name)
    for exchange in (names.events, names.wait, names.due, names.dlx, names.control, names.ops, names.store):
        yield f"{_WRITE}{exchange}", _publishing(exchange)


def _configuring(queue: str) -> Try:
    async def attempt(wire: Wire) -> None:
        await wire.queue_declare(queue, exclusive=True, auto_delete=True)
        await wire.queue_delete(queue)

    return attempt


def _consuming(queue: str) -> Try:
    async def attempt(wire: Wire) -> None:
        await wire.basic_consume(queue, _ignore, arguments={"x-priority": "none"})

    return attempt


def _publishing(exchange: str) -> Try:
    async def attempt(wire: Wire) -> None:
        await wire.basic_publish(b"", exchange=exchange, routing_key="leveret.doctor", properties=_REFUSED)

    return attempt


async def _ignore(_message: DeliveredMessage) -> Any:
    """Settle nothing: the channel is closed at once, and the broker takes its messages back."""


async def _is_granted(channels: Channels, attempt: Try) -> bool:
    """Return whether the broker refuses the operation for another reason than a missing right.

    Raises:
        TimeoutError: it does not answer.
    """
    try:
        async with asyncio.timeout(CALL_S):
            await attempt(await channels.wire())
            await channels.close()  # nothing was refused: leave no consumer behind
    except ChannelAccessRefused:
        return False
    except AMQPError:  # the argument was refused, or the queue or exchange does not exist yet
        return True
    return True
