"""Let one command at a time have the parked entries in hand, over AMQP alone.

The lock is the exclusive queue ``leveret.parked.lock``: the broker gives it to one connection, and deletes it
when that connection ends, even by a kill -9. Its holder also answers questions:

    asker:  own exclusive queue, bound to ``leveret.dlx`` -> a question with the key of the lock
    holder: consumes the lock queue -> an answer with the asker's key: command, host, process, start

A user without the right to declare the queue has no lock; then only the turns of
:mod:`consumer.edges.broker.look` separate two commands. Decision 35.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field

import orjson
from aio_pika.abc import AbstractConnection
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource, ChannelNotFoundEntity
from pamqp.commands import Basic

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.parked import rfc3339
from consumer.core.text.printable import printable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, NOT_THERE, open_channel
from consumer.edges.broker.look import Look, OnRead, QueueInUse, completed, look_into
from topology.names import Names

ANSWER_S = 5.0  #: longest wait for the holder's answer
RETRY_S = 0.25  #: pause between two tries to get the lock, or two questions to its holder
CALL_S = 15.0  #: longest wait for an answer of the broker
TEXT_MAX = 120  #: characters shown of each word of a holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The program that has the parked entries in hand."""

    command: str  #: such as ``leveret parked replay``
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: float = field(default_factory=time.time)  #: Unix seconds

    def __str__(self) -> str:
        return f"`{self.command}` on {self.host}, process {self.pid}, since {rfc3339(self.since)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a command asks for the parked entries."""

    command: str  #: shown to commands that ask for the holder
    wait_s: float = 0.0  #: longest wait for another holder
    on_wait: Callable[[str], None] | None = None  #: receives a line that names the holder, when a wait begins
    on_read: OnRead | None = None  #: is called for each message of the pass


@asynccontextmanager
async def parked_look(connection: AbstractConnection, names: Names, turn: Turn) -> AsyncIterator[Look]:
    """Open the one look into the parked queue; see :func:`consumer.edges.broker.look.look_into`.

    Raises:
        QueueInUse: another command has the entries in hand; the error names it.
        BrokerUnavailable: the queue does not exist, or the connection broke.
    """
    async with (
        holding(connection, names, turn),
        look_into(connection, names.parked, on_read=turn.on_read) as look,
    ):
        yield look


@asynccontextmanager
async def holding(connection: AbstractConnection, names: Names, turn: Turn) -> AsyncIterator[None]:
    """Hold the lock of the parked queue, if this user has the rights.

    It ends with the block, with *connection*, or with the process.

    Args:
        connection: Owner of the lock. Two tasks with one connection do not exclude each other.
        names: Names of our queues.
        turn: The command, and how long it waits.

    Raises:
        QueueInUse: another command holds the lock, and *turn* does not wait longer.
        BrokerUnavailable: the connection broke.
    """
    held: tuple[Channel, str] | None = None
    try:
        with suppress(ChannelAccessRefused):
            await _acquire(connection, names, turn)
            held = await _answering(connection, names, Holder(command=turn.command))
    except CONNECTION_ERRORS as error:
        raise _unavailable(names, error) from None
    try:
        yield
    finally:
        if held is not None and await completed(_release(names, *held)):
            raise asyncio.CancelledError


async def _acquire(connection: AbstractConnection, names: Names, turn: Turn) -> None:
    """Return once the lock is ours."""
    loop = asyncio.get_running_loop()
    deadline, is_told = loop.time() + turn.wait_s, False
    while True:
        channel = await open_channel(connection, confirms=False)
        with suppress(ChannelLockedResource):
            await channel.queue_declare(names.parked_lock, exclusive=True, timeout=CALL_S)
            await channel.close()
            return
        if loop.time() >= deadline:
            raise QueueInUse(_in_use(names, await asked(connection, names)))
        if not is_told and turn.on_wait is not None:
            turn.on_wait(f"waiting for {_shown(await asked(connection, names))}")
            is_told = True
        await asyncio.sleep(RETRY_S)


async def asked(connection: AbstractConnection, names: Names) -> Holder | None:
    """Ask the holder of the lock for its name; None without an answer."""
    answers: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    queue = f"{names.parked_lock}.{uuid.uuid4().hex[:12]}"
    try:
        channel = await open_channel(connection, confirms=False)
        await channel.queue_declare(queue, exclusive=True, auto_delete=True, timeout=CALL_S)
        await channel.queue_bind(queue, names.dlx, names.lock_key(queue), timeout=CALL_S)
        await channel.basic_consume(queue, answers.put, no_ack=True, timeout=CALL_S)
        properties = Basic.Properties(reply_to=names.lock_key(queue))
        key = names.lock_key(names.parked_lock)
        async with asyncio.timeout(ANSWER_S):
            answer = None
            while answer is None:  # a holder that has just begun does not answer yet
                await channel.basic_publish(b"", exchange=names.dlx, routing_key=key, properties=properties)
                with suppress(TimeoutError):
                    answer = await asyncio.wait_for(answers.get(), RETRY_S)
        await channel.close()
        return _read(answer.body)
    except CONNECTION_ERRORS:  # also a time-out, and a missing right: the holder stays unknown
        return None


async def _answering(connection: AbstractConnection, names: Names, holder: Holder) -> tuple[Channel, str]:
    """Answer questions until the lock is released; return the channel, and the tag of its consumer."""
    body = orjson.dumps(asdict(holder))
    own_key = names.lock_key(names.parked_lock)
    channel = await open_channel(connection, confirms=False)

    async def answer(question: DeliveredMessage) -> None:
        key = question.header.properties.reply_to or ""
        if key.startswith(own_key):
            with suppress(*CONNECTION_ERRORS):
                await channel.basic_publish(body, exchange=names.dlx, routing_key=key)

    await channel.queue_bind(names.parked_lock, names.dlx, own_key, timeout=CALL_S)
    consumer = await channel.basic_consume(names.parked_lock, answer, no_ack=True, timeout=CALL_S)
    return channel, consumer.consumer_tag or ""


async def _release(names: Names, answering: Channel, tag: str) -> None:
    """Delete the lock; if the connection broke, the broker has done so."""
    with suppress(*CONNECTION_ERRORS):
        await answering.basic_cancel(tag, timeout=CALL_S)
        await answering.queue_delete(names.parked_lock, timeout=CALL_S)
        await answering.close()


def _read(body: bytes) -> Holder | None:
    try:
        said = orjson.loads(body)
        command, host = (printable(str(said[key]))[:TEXT_MAX] for key in ("command", "host"))
        return Holder(command=command, host=host, pid=int(said["pid"]), since=float(said["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _shown(holder: Holder | None) -> str:
    return "a command that did not answer" if holder is None else str(holder)


def _in_use(names: Names, holder: Holder | None) -> str:
    return f"queue {names.parked} is in use by {_shown(holder)}; try again when it has ended, or use --wait"


def _unavailable(names: Names, error: BaseException) -> BrokerUnavailable:
    remedy = f"; {NOT_THERE}" if isinstance(error, ChannelNotFoundEntity) else ""
    return BrokerUnavailable(f"queue {names.parked_lock}: {str(error) or type(error).__name__}{remedy}")
