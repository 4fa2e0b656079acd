"""Send webhooks over HTTP/1.1: SignedRequest -> one attempt under one deadline -> Outcome.

Data flow: flow.deliver -> (AiohttpSender.send) target by URL -> connection from the pool, or a guarded new
one -> request written in one piece -> response head, bounded body -> Outcome -> core.retry decides.

The sender drives aiohttp's connector and response parser itself instead of a ``ClientSession``. Pool, TLS,
happy eyeballs and the C parser are what we want of it; the session around them (cookies, redirects, objects
for URL, headers and response, a task for each body) costs as much again: ``bench/http_send.py`` measures
it.

**What is sent twice.** A server may act on a POST as soon as a byte of it has left, so after that a request
is never sent again: a connection that breaks is an Outcome, and the retry ladder decides. Between taking a
connection from the pool and writing there is no await, and before the first byte the kernel is asked
whether the server has closed meanwhile. Such a connection is thrown away, and the request goes out on
another: once more and once only.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

from aiohttp import ClientPayloadError, ClientRequest, ClientTimeout, StreamReader, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from consumer.core.egress import EgressRule, refuse_url
from consumer.core.model import Kind, Outcome, SignedRequest
from consumer.edges.http.guard import GuardedResolver, Resolve, SystemLookup, guarded_socket, tls_context
from consumer.edges.http.outcomes import AttemptFailed, answered, classify

_TARGETS = 8_192  #: URLs kept parsed; the oldest goes first
_JOIN_BYTES = 65_536  #: a body up to this size is copied behind its head: one buffer, one write
_INTERIM_RESPONSES = 16  #: 1xx responses that are looked past
_EXACT = float("inf")  #: aiohttp rounds timeouts above its threshold up to whole seconds

#: Headers that frame the message or name its target: the sender's own. Source: RFC 9112; RFC 9110, 7.6.
_OWN_HEADERS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect")
)

#: The server closed its side; 0 where the system cannot tell. Source: Linux poll(2).
_PEER_GONE: int = getattr(select, "POLLRDHUP", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    """How webhooks are sent; one for all endpoints."""

    connect_timeout_s: float = 5.0  #: bound on look-up, TCP and TLS together, within the total deadline
    resolve_timeout_s: float = 4.0  #: bound on the look-up alone; shorter, to be told apart
    resolve_cache_s: float = 10.0  #: how long found addresses serve new connections; 0: looked up for each
    max_response_bytes: int = 16_384  #: kept of a response body, at least 1; a longer one is cut off
    keepalive_s: float = 4.0  #: idle life of a connection; Node.js and uvicorn close after 5 s
    connections_per_host: int = 0  #: 0: as many as there are requests in flight, which the flow bounds
    ca_file: str | None = None  #: PEM file of authorities trusted beside the system's
    egress: EgressRule = field(default_factory=EgressRule)


@dataclass(frozen=True, slots=True)
class _Target:
    """What a URL means, worked out once."""

    request: ClientRequest  #: names the pool's entry to the connector; is never sent itself
    connector: TCPConnector
    head: str  #: request line and Host


class _Peer:
    """The other end of a connection that is kept."""

    __slots__ = ("_poll",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._poll: select.poll | None = None
        if _PEER_GONE:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), _PEER_GONE)

    def gone(self) -> bool:
        """Ask the kernel whether it closed its side, which the loop may not have read yet."""
        return self._poll is not None and bool(self._poll.poll(0))


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection that is ours until it is released or cut."""

    connection: Connection
    protocol: ResponseHandler
    transport: asyncio.Transport


@dataclass(slots=True)
class _Attempt:
    """How far one attempt has come; what its outcome is told from."""

    line: _Line | None = None  #: None before there is one, and once the pool has it back
    message: RawResponseMessage | None = None
    body: bytes = b""


class _Deadline:
    """What ``asyncio.timeout`` does, on a loop that is known: that one asks for the loop three times per use,
    and each time costs a system call."""

    __slots__ = ("_cancelling", "_expired", "_handle", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a request is sent within a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._expired = False
        self._handle = loop.call_later(timeout_s, self._expire)

    def passed(self) -> bool:
        """Say whether the cancellation that has just been caught is this deadline's alone."""
        return self._expired and self._task.uncancel() <= self._cancelling

    def call_off(self) -> None:
        """The request has ended."""
        self._handle.cancel()

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()


class AiohttpSender:
    """Implements :class:`consumer.ports.Sender`. Lives in the loop of its first :meth:`send`."""

    def __init__(self, options: SenderOptions, resolve: Resolve | None = None) -> None:
        """Prepare; nothing is opened before the first request.

        Args:
            options: Bounds and rules.
            resolve: Looks names up; None asks the system.

        Raises:
            ConfigError: the CA file cannot be read.
        """
        self._options = options
        self._lookup = SystemLookup()
        self._resolve = resolve or self._lookup
        self._tls = tls_context(options.ca_file)
        self._timeout = ClientTimeout(connect=options.connect_timeout_s, ceil_threshold=_EXACT)
        self._connectors: dict[bool, TCPConnector] = {}
        self._targets: dict[str, _Target] = {}
        self._in_flight: set[ResponseHandler] = set()
        self._peers: WeakKeyDictionary[ResponseHandler, _Peer] = WeakKeyDictionary()
        self._closed = False

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request* under its total deadline and say what came of it.

        The status decides as soon as there is one: a body that is cut, endless or malformed changes
        neither a success nor a failure, unless what breaks it came in one segment with the head: the
        parser then gives up both. Nothing is followed, kept as a cookie, or decompressed.

        Returns:
            An Outcome whatever happens; unknown faults are ``CLIENT_ERROR`` with the type's name.

        Raises:
            asyncio.CancelledError: the caller gave up; the connection is cut.
        """
        began = time.monotonic()
        attempt = _Attempt()
        kind, detail = Kind.CLIENT_ERROR, ""
        deadline = _Deadline(self._loop, request.timeout_s)
        try:
            await self._run(request, attempt)
        except asyncio.CancelledError:
            if not deadline.passed():
                raise
            kind, detail = classify(TimeoutError(), connected=attempt.line is not None)
        except Exception as fault:  # the port's promise: every fault is an outcome
            kind, detail = classify(fault, connected=attempt.line is not None)
        finally:
            deadline.call_off()
            if attempt.line is not None:
                self._cut(attempt.line)
        duration_s = time.monotonic() - began
        if attempt.message is not None:
            return answered(attempt.message, attempt.body, duration_s, detail)
        return Outcome(kind=kind, duration_s=duration_s, detail=detail)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def close(self) -> None:
        """Close every connection; requests in flight end as ``RESET``, later ones are refused."""
        self._closed = True
        for protocol in self._in_flight:
            protocol.abort()
        for connector in self._connectors.values():
            await connector.close()
        self._connectors.clear()
        self._targets.clear()
        self._lookup.close()

    async def _run(self, request: SignedRequest, attempt: _Attempt) -> None:
        target = self._targets.get(request.url) or self._target(request.url)
        head = _head(target, request)
        line = attempt.line = await self._connect(target)
        line.protocol.set_response_params(
            read_until_eof=True, auto_decompress=False, read_bufsize=self._options.max_response_bytes
        )
        if len(request.body) <= _JOIN_BYTES:
            line.transport.write(head + request.body)
        else:
            line.transport.writelines((head, request.body))
        attempt.message, payload = await _read_head(line.protocol)
        whole = await self._read_body(payload, attempt, line.protocol)
        if whole and not line.transport.get_write_buffer_size():
            attempt.line = None
            self._in_flight.discard(line.protocol)
            line.connection.release()  # to the pool, which closes it if the server said so

    async def _connect(self, target: _Target) -> _Line:
        """Return a connection on which the first byte can be written now.

        One that died in the pool is thrown away and replaced once: nothing was written on it.

        Raises:
            ConnectionResetError: the second one was closed by the server before it was used, too.
        """
        for last in (False, True):
            connection = await target.connector.connect(target.request, [], self._timeout)
            line = self._usable(connection)
            if line is not None:
                self._in_flight.add(line.protocol)
                return line
            connection.close()
            if not last:
                await asyncio.sleep(0)  # lets the loop see every other close that came with this one
        raise ConnectionResetError("the server closed the connection before anything was written")

    def _usable(self, connection: Connection) -> _Line | None:
        """Return the line if nothing speaks against writing on it.

        Not when it is closed, when the server's close waits unread, or when it spoke out of turn.
        """
        protocol = connection.protocol
        transport = connection.transport
        if protocol is None or transport is None or transport.is_closing() or protocol.should_close:
            return None
        peer = self._peers.get(protocol)
        if peer is None:
            peer = self._peers[protocol] = _Peer(transport)
        if peer.gone():
            return None
        return _Line(connection, protocol, transport)

    async def _read_body(self, payload: StreamReader, attempt: _Attempt, protocol: ResponseHandler) -> bool:
        """Read at most ``max_response_bytes``; return whether that was all of the body."""
        limit = self._options.max_response_bytes
        if payload.is_eof():  # nearly always: it came with the head
            body = payload.read_nowait()
            attempt.body = body[:limit]
            return len(body) <= limit
        body = b""
        with _ends_with(protocol, payload):
            while not payload.at_eof():
                body += await payload.readany()
                attempt.body = body[:limit]
                if len(body) > limit:
                    return False
        return True

    def _cut(self, line: _Line) -> None:
        """Cut the connection at once: a close would wait for a peer that does not read."""
        self._in_flight.discard(line.protocol)
        line.protocol.abort()
        line.connection.close()

    def _target(self, text: str) -> _Target:
        """Work out what a URL means, and remember it."""
        if self._closed:
            raise AttemptFailed(Kind.CLIENT_ERROR, "the sender is closed")
        try:
            url = URL(text, encoded=text.isascii())  # what is written as ASCII goes out as it is written
        except ValueError:
            raise AttemptFailed(Kind.CLIENT_ERROR, "the URL cannot be read") from None
        if not url.raw_host or url.raw_user is not None or url.raw_password is not None:
            raise AttemptFailed(Kind.CLIENT_ERROR, "the URL needs a host and must not carry a user")
        reason = refuse_url(url.scheme, url.raw_host, self._options.egress)
        if reason is not None:
            raise AttemptFailed(Kind.BLOCKED, reason)
        target = _Target(
            request=ClientRequest("POST", url, loop=asyncio.get_running_loop()),
            connector=self._connector(tls=url.scheme == "https"),
            head=f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n",
        )
        if len(self._targets) >= _TARGETS:
            del self._targets[next(iter(self._targets))]
        self._targets[text] = target
        return target

    def _connector(self, *, tls: bool) -> TCPConnector:
        """Return the pool for https or for http: one each, since the address rule differs."""
        connector = self._connectors.get(tls)
        if connector is None:
            options = self._options
            connector = self._connectors[tls] = TCPConnector(
                ssl=self._tls,
                resolver=GuardedResolver(self._resolve, options.egress, options.resolve_timeout_s, tls=tls),
                socket_factory=guarded_socket(options.egress, tls=tls),
                use_dns_cache=options.resolve_cache_s > 0,
                ttl_dns_cache=options.resolve_cache_s,  # type: ignore[arg-type]  # it takes fractions too
                limit=0,
                limit_per_host=options.connections_per_host,
                keepalive_timeout=options.keepalive_s,
                timeout_ceil_threshold=_EXACT,
            )
        return connector


def _head(target: _Target, request: SignedRequest) -> bytes:
    """Return everything before the body; the caller's headers go out as given, in their order.

    Raises:
        AttemptFailed: a header is one of the sender's own, or would break out of its line.
    """
    lines = [target.head]
    for name, value in request.headers:
        if name.lower() in _OWN_HEADERS:
            raise AttemptFailed(Kind.CLIENT_ERROR, f"the header {name} is not the caller's to set")
        lines.append(f"{name}: {value}\r\n")
    lines.append(f"Content-Length: {len(request.body)}\r\n\r\n")
    text = "".join(lines)
    breaks = len(request.headers) + 4
    if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
        raise AttemptFailed(Kind.CLIENT_ERROR, "a header holds a line break or NUL")
    return text.encode()


async def _read_head(protocol: ResponseHandler) -> tuple[RawResponseMessage, StreamReader]:
    """Return the final response's head, past any 1xx before it."""
    for _ in range(_INTERIM_RESPONSES):
        message, payload = await protocol.read()
        if message.code >= 200:
            return message, payload
        if message.code == 101:
            raise AttemptFailed(Kind.PROTOCOL, "101: the server switched protocols unasked")
    raise AttemptFailed(Kind.PROTOCOL, "1xx responses without end")


@contextmanager
def _ends_with(protocol: ResponseHandler, payload: StreamReader) -> Iterator[None]:
    """Make a body that is still to come end with its connection.

    On a malformed chunk aiohttp closes the connection, and its C parser then forgets the body: without this
    its reader would wait for the deadline.
    """
    closed = protocol.closed
    if closed is None:  # it closed between head and body; a whole or a cut body knows that itself
        _end_body(payload)
        yield
        return

    def end(_: asyncio.Future[None]) -> None:
        _end_body(payload)

    closed.remove_done_callback(_retrieve)
    closed.add_done_callback(_retrieve)
    closed.add_done_callback(end)
    try:
        yield
    finally:
        closed.remove_done_callback(end)


def _end_body(payload: StreamReader) -> None:
    if not payload.is_eof() and payload.exception() is None:
        payload.set_exception(ClientPayloadError("the connection ended within a malformed body"))


def _retrieve(closed: asyncio.Future[None]) -> None:
    """Look at how a connection ended, or asyncio would complain that nobody did."""
    if not closed.cancelled():
        closed.exception()
