"""Connect to one of several brokers, and reconnect until cancelled."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import aio_pika
import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.connection import Connection
from yarl import URL

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.retry.policy import RetryPolicy, delay_s
from consumer.edges.broker.connection.come_back import until_back
from consumer.edges.broker.connection.execute import Pacing, execute_with_retry
from consumer.edges.broker.connection.refusals import Refusals
from consumer.edges.broker.wire import frames
from consumer.ports import BrokerReports
from consumer.settings.sections import AmqpSettings

frames.install()

# aiormq considers a connection stuck after (heartbeat + 1) x 3 s without a frame. A cut without FIN must be
# noticed within two heartbeats: (10 + 1) x 1.3 s, checked every 5 s, is at most 19.3 s.
Connection.HEARTBEAT_GRACE_MULTIPLIER = 1.3  # type: ignore[assignment]  # only multiplied, never an index

CONNECTION_ERRORS = (OSError, aiormq.exceptions.AMQPError, asyncio.TimeoutError, RuntimeError)
"""Errors of connecting, declaring or settling when the broker or the network fails."""

DIAL_S = 2.0
"""Seconds within which a running broker accepts a bare connection."""

FRAME_BYTES = 131_072
"""Largest frame that we send if the broker's ``frame_max`` is 0, which means no limit."""

ALL_FRAMES = 0
"""Unlimited buffer for frames of a channel that wait to be handled. Source: aiormq, ``Channel``."""


Diagnose: TypeAlias = Callable[[], Awaitable[str | None]]
"""Explains a broker that accepts a connection and then stays silent; None: unknown."""

SILENT = (
    "it accepted the connection and sent nothing: the node may be overloaded, or at its open-file limit "
    "(see `rabbitmqctl status`; raise LimitNOFILE)"
)

NOT_THERE = "check LEVERET_AMQP_URL and its virtual host, or run `leveret topology apply`"
"""Remedy for a missing queue of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpOptions:
    """Addresses and time limits of connections to the broker."""

    urls: tuple[str, ...]  #: tried in turn; they may contain passwords, so they are never logged
    read_urls: Callable[[], tuple[str, ...]] | None = None  #: replaces *urls* at each connection
    heartbeat_s: float = 10.0
    connect_timeout_s: float = 10.0
    reconnect_first_s: float = 0.2
    reconnect_max_s: float = 30.0
    confirm_slow_s: float = 5.0  #: age of a confirm from which no new attempts start
    confirm_lost_s: float = 60.0  #: age of a confirm from which the channel is closed
    tls: ssl.SSLContext | None = None
    diagnose: Diagnose | None = None


def amqp_options(
    settings: AmqpSettings,
    urls: tuple[str, ...],
    read_urls: Callable[[], tuple[str, ...]] | None = None,
    diagnose: Diagnose | None = None,
) -> AmqpOptions:
    """Build the options from the settings.

    Args:
        settings: Settings of the connections.
        urls: URLs of the brokers.
        read_urls: Returns the URLs anew at each connection.
        diagnose: Explains a silent broker, if it can.

    Raises:
        ConfigError: a certificate file cannot be used.
    """
    return AmqpOptions(
        urls=urls,
        read_urls=read_urls,
        heartbeat_s=settings.heartbeat_s,
        connect_timeout_s=settings.connect_timeout_s,
        reconnect_max_s=settings.reconnect_max_s,
        confirm_slow_s=settings.confirm_slow_s,
        confirm_lost_s=settings.confirm_lost_s,
        tls=_tls(settings),
        diagnose=diagnose,
    )


def _tls(settings: AmqpSettings) -> ssl.SSLContext | None:
    if settings.ca_file is None and settings.cert_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"[amqp] ca_file, cert_file, key_file: cannot be used: {error}") from error
    return context


def shown_url(url: str) -> str:
    """Return an AMQP URL without its password and query."""
    parsed = URL(url)
    if parsed.password:
        parsed = parsed.with_password("***")
    return str(parsed.with_query(None))


async def connect(options: AmqpOptions, name: str) -> AbstractConnection:
    """Open a plain connection to the first broker of the list that answers.

    Raises:
        BrokerUnavailable: none answered; the text names each without its password.
    """
    faults, silent = [], False
    for url in await _current_urls(options):
        address = URL(url).update_query({"heartbeat": int(options.heartbeat_s), "name": f"leveret {name}"})
        try:
            connection = await _open(address, options)
        except CONNECTION_ERRORS as error:
            faults.append(f"{shown_url(url)}: {_reason(error)}")
            silent = silent or await _is_silent(address, error)
        else:
            _bound_frames(connection)
            return connection
    remedy = "is it up, and is LEVERET_AMQP_URL right?"
    if silent:
        remedy = (None if options.diagnose is None else await options.diagnose()) or SILENT
    raise BrokerUnavailable(f"no broker answered: {'; '.join(faults)}; {remedy}")


async def _open(address: URL, options: AmqpOptions) -> AbstractConnection:
    """Open a connection, and close one that failed.

    The finalizer of the library closes it otherwise, in a task of its own. At the end of the loop that task
    never runs, and Python warns of a coroutine that was never awaited.
    """
    connection = aio_pika.Connection(address, ssl_context=options.tls)
    try:
        await connection.connect(timeout=options.connect_timeout_s)
    except BaseException:
        await connection.close()
        raise
    return connection


def _bound_frames(connection: AbstractConnection) -> None:
    """Give frames a size where the broker sets no limit, as the library computes with that 0."""
    tune = underlay(connection).connection_tune
    tune.frame_max = tune.frame_max or FRAME_BYTES


async def _is_silent(address: URL, error: Exception) -> bool:
    """Return whether a broker that did not answer in time still accepts connections."""
    if not isinstance(error, asyncio.TimeoutError):
        return False
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.host, address.port), DIAL_S)
    except OSError:  # also a time-out: of the network, or with a full backlog
        return False
    writer.close()
    return True


async def _current_urls(options: AmqpOptions) -> tuple[str, ...]:
    """Return the current URLs, as a file may contain a new password since (fault 94)."""
    if options.read_urls is None:
        return options.urls
    try:
        return await asyncio.to_thread(options.read_urls)
    except ConfigError as error:
        raise BrokerUnavailable(str(error)) from None


async def _known_urls(options: AmqpOptions) -> tuple[str, ...]:
    """Return the current URLs, and none while their file cannot be read."""
    try:
        return await _current_urls(options)
    except BrokerUnavailable:
        return ()


class _DidNotLast(BrokerUnavailable):
    """The connection ended soon, or was refused."""


@dataclass(slots=True)
class KeepAlive:
    """Runs *session* on a new connection again and again, with growing, jittered pauses between."""

    options: AmqpOptions
    name: str
    observe: BrokerReports
    sample: Callable[[], float]
    opening: Callable[[AmqpOptions, str], Awaitable[AbstractConnection]] = connect
    refusals: Refusals | None = None  #: shared with other connections; None makes its own
    _was_connected: bool = field(default=False, init=False)
    _refusals: Refusals = field(init=False)
    #: Reason of the last refusal; None after a success.
    _refused: str | None = field(default=None, init=False)
    _came_back: bool = field(default=False, init=False)  #: the last pause ended early

    def __post_init__(self) -> None:
        """Create refusals if none are shared."""
        self._refusals = self.refusals or Refusals(self.observe, time.monotonic)

    async def run(self, session: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        """Run until cancelled; pauses start short again after a session that lasted, or a broker's return.

        Raises:
            Exception: any error of *session* except those of the connection.
        """
        policy = RetryPolicy(
            name="reconnect",
            max_attempts=1000,
            base_s=self.options.reconnect_first_s,
            max_s=self.options.reconnect_max_s,
            jitter_ratio=0.5,
        )
        loop = asyncio.get_running_loop()

        async def lasting() -> None:
            began, came_back = loop.time(), self._came_back
            await self._once(session)
            if loop.time() - began <= self.options.reconnect_max_s and not came_back:
                raise _DidNotLast

        pacing = Pacing(sample=self.sample, now=loop.time, sleep=self._pause)
        while True:
            done = await execute_with_retry(
                lasting, policy, pacing, is_retryable=lambda error: isinstance(error, _DidNotLast)
            )
            if done.error is not None and not isinstance(done.error, _DidNotLast):
                raise done.error  # a different topology, or a bug: a new connection does not help
            await self._pause(delay_s(policy, 1, self.sample()))

    async def _pause(self, wait_s: float) -> None:
        """Report a refusal, and wait for the next try, or less long for a broker that comes back."""
        self._came_back = False
        if self._refused is None:
            await asyncio.sleep(wait_s)
            return
        self._refusals.refused(self.name, self._refused, wait_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await until_back(await _known_urls(self.options), self.sample)
                self._came_back = True

    async def _once(self, session: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        try:
            connection = await self.opening(self.options, self.name)
        except BrokerUnavailable as error:
            self._refused = str(error)
            return
        self._refused = None
        suppressed = self._refusals.connected()
        self.observe.broker_connected(self.name, again=self._was_connected, suppressed=suppressed)
        self._was_connected = True
        try:
            await session(connection)
            self.observe.warned(
                "broker.lost", connection=self.name, detail=await close_reason(underlay(connection))
            )
        except (BrokerUnavailable, *CONNECTION_ERRORS) as error:
            self.observe.warned("broker.lost", connection=self.name, detail=_reason(error))
        finally:
            await close_quietly(connection)


async def close_quietly(connection: AbstractConnection) -> None:
    """Close a connection, even a broken one, within 5 s."""
    try:
        await asyncio.wait_for(connection.close(), 5)
    except CONNECTION_ERRORS:
        return


async def open_channel(connection: AbstractConnection, *, confirms: bool) -> Channel:
    """Open a channel and return the library's inner one, which costs less per message.

    It handles arrived frames at once instead of ten per turn of the loop; the windows bound their number.
    While the broker blocks the connection this waits.

    Raises:
        ConnectionAbortedError: the connection closed meanwhile.
    """
    transport = underlay(connection)
    await _unblocked(transport)
    channel = await transport.channel(
        publisher_confirms=confirms, on_return_raises=confirms, frame_buffer_size=ALL_FRAMES
    )
    return cast(Channel, channel)


async def _unblocked(transport: Connection) -> None:
    """Wait for the end of a block, or of the connection: the library's own wait goes on after the latter."""
    await first_of(transport.ready(), closed(transport))
    if transport.is_closed:
        raise ConnectionAbortedError("the connection closed")


def underlay(connection: AbstractConnection) -> Connection:
    """Return the library's inner connection.

    Raises:
        BrokerUnavailable: the connection was never opened.
    """
    if connection.transport is None:
        raise BrokerUnavailable("the connection was never opened")
    return cast(Connection, connection.transport.connection)


async def closed(*resources: Connection | Channel) -> None:
    """Return once either side has closed one of the connections or channels."""
    await first_of(*(resource.closing for resource in resources))


async def first_of(*waits: Awaitable[object]) -> None:
    """Return once one of *waits* has ended, and cancel the others."""
    ends = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()


@contextmanager
def closable() -> Iterator[None]:
    """Turn the early end of a library call into a connection error, unless this task was cancelled.

    When this worker closes a channel or a connection, the library cancels the calls of all tasks on it, or
    gives them a bare ``Exception``. Either would end a task that has to go on.

    Raises:
        ConnectionAbortedError: the channel or the connection of the call was closed by this worker.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionAbortedError("closed by this worker") from None
    except Exception as error:
        if type(error) is Exception:
            raise ConnectionAbortedError("closed by this worker") from None
        raise


async def close_reason(resource: Connection | Channel) -> str:
    """Return the reason for which a connection or channel closed, in the broker's words."""
    try:
        await resource.closing
    except asyncio.CancelledError:
        return "closed by us"
    except CONNECTION_ERRORS as error:
        return _reason(error)
    return "closed normally"


def _reason(error: BaseException) -> str:
    """Return the text of an error, in the broker's own words if it answered."""
    text = str(error) or type(error).__name__
    if answered := _ANSWERED.search(text):
        text = answered[1]
    return text[:300]


_ANSWERED = re.compile(r"^Expected one of .*, got (.+)", re.DOTALL)
"""Error of the library when the broker answers with another frame; see :func:`frames.install`."""
