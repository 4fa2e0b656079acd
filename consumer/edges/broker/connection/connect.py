"""Connect to one of several brokers, and keep a connection to them for ever."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable
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
from consumer.edges.broker.connection.execute import Pacing, execute_with_retry
from consumer.edges.broker.connection.refusals import Refusals
from consumer.edges.broker.wire import frames
from consumer.ports import BrokerReports
from consumer.settings.sections import AmqpSettings

frames.install()

# aiormq calls a connection stuck after (heartbeat + 1) x 3 s without a frame. A cut without FIN has to be
# noticed within two heartbeats: (10 + 1) x 1.3 s, looked at every 5 s, is at most 19.3 s.
Connection.HEARTBEAT_GRACE_MULTIPLIER = 1.3  # type: ignore[assignment]  # only multiplied, never an index

CONNECTION_ERRORS = (OSError, aiormq.exceptions.AMQPError, asyncio.TimeoutError, RuntimeError)
"""What connecting, declaring or settling may raise when the broker or the network fails."""

DIAL_S = 2.0
"""A broker that is up takes a bare connection within this time."""

ALL_FRAMES = 0
"""No bound on the frames of a channel that are read and not yet looked at. Source: aiormq, ``Channel``."""


Diagnose: TypeAlias = Callable[[], Awaitable[str | None]]
"""Says why a broker takes a connection and then says nothing; None: nobody knows."""

SILENT = (
    "it took the connection and said nothing: the node may be overloaded, or at its open-file limit "
    "(see `rabbitmqctl status`; raise LimitNOFILE)"
)

NOT_THERE = "check LEVERET_AMQP_URL and its virtual host, or run `leveret topology apply`"
"""Where a queue of ours is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpOptions:
    """How to reach the broker."""

    urls: tuple[str, ...]  #: tried in turn; may hold passwords, so never logged
    read_urls: Callable[[], tuple[str, ...]] | None = None  #: asked instead at each connection
    heartbeat_s: float = 10.0
    connect_timeout_s: float = 10.0
    reconnect_first_s: float = 0.2
    reconnect_max_s: float = 30.0
    confirm_slow_s: float = 5.0  #: a confirm older than this starts no new attempt
    confirm_lost_s: float = 60.0  #: a confirm older than this closes the channel
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
        settings: Of the connections.
        urls: Of the brokers.
        read_urls: Is asked for the URLs at each connection.
        diagnose: Says why a broker is silent, as far as it knows.

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
        BrokerUnavailable: none answered; names each without its password.
    """
    faults, silent = [], False
    for url in await _current_urls(options):
        address = URL(url).update_query({"heartbeat": int(options.heartbeat_s), "name": f"leveret {name}"})
        try:
            return await aio_pika.connect(address, timeout=options.connect_timeout_s, ssl_context=options.tls)
        except CONNECTION_ERRORS as error:
            faults.append(f"{shown_url(url)}: {_reason(error)}")
            silent = silent or await _is_silent(address, error)
    remedy = "is it up, and is LEVERET_AMQP_URL right?"
    if silent:
        remedy = (None if options.diagnose is None else await options.diagnose()) or SILENT
    raise BrokerUnavailable(f"no broker answered: {'; '.join(faults)}; {remedy}")


async def _is_silent(address: URL, error: Exception) -> bool:
    """Say whether a broker that did not answer in time takes connections all the same."""
    if not isinstance(error, asyncio.TimeoutError):
        return False
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.host, address.port), DIAL_S)
    except OSError:  # a time-out too: the network, or the backlog is full
        return False
    writer.close()
    return True


async def _current_urls(options: AmqpOptions) -> tuple[str, ...]:
    """Return where the brokers are now: a file may have got another password since (fault 94)."""
    if options.read_urls is None:
        return options.urls
    try:
        return await asyncio.to_thread(options.read_urls)
    except ConfigError as error:
        raise BrokerUnavailable(str(error)) from None


class _DidNotLast(BrokerUnavailable):
    """The connection ended soon, or never began."""


@dataclass(slots=True)
class KeepAlive:
    """Runs *session* on a fresh connection again and again, with growing, jittered pauses between."""

    options: AmqpOptions
    name: str
    observe: BrokerReports
    sample: Callable[[], float]
    opening: Callable[[AmqpOptions, str], Awaitable[AbstractConnection]] = connect
    refusals: Refusals | None = None  #: shared with other connections; None: its own
    _was_connected: bool = field(default=False, init=False)
    _refusals: Refusals = field(init=False)
    _refused: str | None = field(default=None, init=False)  #: why the last try never began

    def __post_init__(self) -> None:
        """Report refusals alone where nobody shares them."""
        self._refusals = self.refusals or Refusals(self.observe, time.monotonic)

    async def run(self, session: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        """Return never; the pause starts anew once a session lasted.

        Raises:
            Exception: of *session*, where it is not the connection's.
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
            began = loop.time()
            await self._once(session)
            if loop.time() - began <= self.options.reconnect_max_s:
                raise _DidNotLast

        pacing = Pacing(sample=self.sample, now=loop.time, sleep=self._pause)
        while True:
            done = await execute_with_retry(
                lasting, policy, pacing, is_retryable=lambda error: isinstance(error, _DidNotLast)
            )
            if done.error is not None and not isinstance(done.error, _DidNotLast):
                raise done.error  # the topology differs, or a bug: nothing that a new connection mends
            await self._pause(delay_s(policy, 1, self.sample()))

    async def _pause(self, wait_s: float) -> None:
        """Report why there is no connection, and wait for the next try."""
        if self._refused is not None:
            self._refusals.refused(self.name, self._refused, wait_s)
        await asyncio.sleep(wait_s)

    async def _once(self, session: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        try:
            connection = await self.opening(self.options, self.name)
        except BrokerUnavailable as error:
            self._refused = str(error)
            return
        self._refused = None
        self._refusals.connected()
        self.observe.broker_connected(self.name, again=self._was_connected)
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
    """Close a connection that may be broken already; bounded to 5 s."""
    try:
        await asyncio.wait_for(connection.close(), 5)
    except CONNECTION_ERRORS:
        return


async def open_channel(connection: AbstractConnection, *, confirms: bool) -> Channel:
    """Open a channel and return the library's inner one, which costs less per message.

    What has arrived is read at once, not ten frames for each turn of the loop: the windows bound it.
    """
    transport = underlay(connection)
    await transport.ready()
    channel = await transport.channel(
        publisher_confirms=confirms, on_return_raises=confirms, frame_buffer_size=ALL_FRAMES
    )
    return cast(Channel, channel)


def underlay(connection: AbstractConnection) -> Connection:
    """Return the library's inner connection.

    Raises:
        BrokerUnavailable: it was never opened.
    """
    if connection.transport is None:
        raise BrokerUnavailable("the connection was never opened")
    return cast(Connection, connection.transport.connection)


async def closed(*resources: Connection | Channel) -> None:
    """Return once one of the connections or channels is closed, from either side."""
    closings = [resource.closing for resource in resources]
    try:
        await asyncio.wait(closings, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for closing in closings:
            closing.cancel()


async def close_reason(resource: Connection | Channel) -> str:
    """Say why a connection or channel closed, in the broker's words."""
    try:
        await resource.closing
    except asyncio.CancelledError:
        return "closed by us"
    except CONNECTION_ERRORS as error:
        return _reason(error)
    return "closed normally"


def _reason(error: BaseException) -> str:
    """Return what went wrong, in the broker's own words where it answered."""
    text = str(error) or type(error).__name__
    if answered := _ANSWERED.search(text):
        text = answered[1]
    return text[:300]


_ANSWERED = re.compile(r"^Expected one of .*, got (.+)", re.DOTALL)
"""What the library raises when the broker answers with another frame; see :func:`frames.install`."""
