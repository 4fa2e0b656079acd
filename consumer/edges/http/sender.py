"""Send webhooks over HTTP/1.1: SignedRequest -> one attempt under one deadline -> Outcome.

Data flow: flow.deliver -> (AiohttpSender.send) target by URL -> connection from the pool, or a guarded new
one -> request written in one piece -> response head, bounded body -> Outcome -> core.retry decides.

The sender drives aiohttp's connector and response parser itself instead of a ``ClientSession``. Pool, TLS,
happy eyeballs and the C parser are what we want of it; the session around them (cookies, redirects, objects
for URL, headers and response, a task for each body) costs as much again: ``bench/http_clients.py`` measures
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
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from aiohttp import BaseConnector, ClientPayloadError, ClientRequest, ClientTimeout, StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage

from consumer.core.access import TlsPolicy
from consumer.core.model import Kind, Outcome, SignedRequest
from consumer.edges.http.dial import Dialer
from consumer.edges.http.guard import Goal
from consumer.edges.http.options import SenderOptions
from consumer.edges.http.outcomes import (
    IN_QUEUE,
    AttemptFailed,
    answered,
    classify,
    control_of,
    late_in,
)
from consumer.edges.http.parts import Parts
from consumer.edges.http.request import first_lines, read_url, write_head
from consumer.edges.http.tls import ResumingContext
from consumer.flow.loop import running_loop

_TARGETS = 8_192  #: URLs kept parsed; the oldest goes first
_JOIN_BYTES = 65_536  #: a body up to this size is copied behind its head: one buffer, one write
_INTERIM_RESPONSES = 16  #: 1xx responses that are looked past
_NO_BOUND = ClientTimeout()  #: the dialer has its own

#: The server closed its side; 0 where the system cannot tell. Source: Linux poll(2).
_PEER_GONE: int = getattr(select, "POLLRDHUP", 0)


class _Connector(BaseConnector):
    """aiohttp's pool, with connections that our dialer opened."""

    def __init__(self, dialer: Dialer, options: SenderOptions) -> None:
        super().__init__(
            limit=0, limit_per_host=options.connections_per_host, keepalive_timeout=options.keepalive_s
        )
        self._dialer = dialer

    async def _create_connection(
        self, req: ClientRequest, traces: list[Any], timeout: ClientTimeout
    ) -> ResponseHandler:
        url, context = req.url, req.ssl
        goal = Goal(url.raw_host or "", url.port or 0, tls=url.scheme == "https")
        own = context if goal.tls and isinstance(context, ssl.SSLContext) else None
        _, protocol = await self._dialer.open(goal, own, lambda: _Handler(self._loop))
        return protocol

    async def _wait_for_available_connection(self, key: ConnectionKey, traces: list[Any]) -> None:
        """Note on a cancellation that nothing was dialled: every connection was in use."""
        try:
            await super()._wait_for_available_connection(key, traces)
        except asyncio.CancelledError as cut:
            cut.add_note(IN_QUEUE)
            raise


@dataclass(frozen=True, slots=True)
class _Target:
    """What a URL means, worked out once."""

    request: ClientRequest  #: names the pool's entry to the connector; is never sent itself
    head: str  #: request line and Host
    context: ResumingContext | None  #: of TLS; None for plain HTTP


class _Peer:
    """The other end of a connection that is kept."""

    __slots__ = ("_poll", "ends_at", "resumable")

    def __init__(self, transport: asyncio.Transport, ends_at: float) -> None:
        self.ends_at = ends_at  #: in the loop's time: from then on it is not kept
        self.resumable = False  #: True once its TLS session is kept
        self._poll: select.poll | None = None
        if _PEER_GONE:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), _PEER_GONE)

    def gone(self) -> bool:
        """Ask the kernel whether it closed its side, which the loop may not have read yet."""
        return self._poll is not None and bool(self._poll.poll(0))


class _Handler(ResponseHandler):
    """aiohttp's protocol, with what we know of the other end."""

    peer: _Peer | None = None  #: None until its first use


class _Line(NamedTuple):
    """A connection that is ours until it is released or cut."""

    connection: Connection
    protocol: _Handler
    transport: asyncio.Transport
    peer: _Peer


@dataclass(slots=True)
class _Attempt:
    """How far one attempt has come; what its outcome is told from."""

    line: _Line | None = None  #: None before there is one, and once the pool has it back
    message: RawResponseMessage | None = None
    body: bytes = b""


class _Deadline:
    """What ``asyncio.timeout`` does, on a loop that is known: that one asks for the loop three times per use,
    and each time costs a system call."""

    __slots__ = ("_cancelling", "_handle", "_owes", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a request is sent within a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._owes = False  #: a cancellation was asked for, and is not undone yet
        self._handle = loop.call_later(timeout_s, self._expire)

    def passed(self) -> bool:
        """Say whether the cancellation that has just been caught is this deadline's alone."""
        return self._owes and self._undo() <= self._cancelling

    def call_off(self) -> None:
        """The request has ended; whatever came of it, the task is left with no cancellation of ours."""
        self._handle.cancel()
        if self._owes:  # what was cancelled ended in another way
            self._undo()

    def _undo(self) -> int:
        self._owes = False
        return self._task.uncancel()

    def _expire(self) -> None:
        self._owes = True
        self._task.cancel()


class AiohttpSender:
    """Sends with aiohttp: a :class:`consumer.ports.Sender`. Lives in the loop of its first :meth:`send`."""

    _loop = cached_property(running_loop)

    def __init__(self, parts: Parts) -> None:
        """Prepare; nothing is opened before the first request. The parts are closed by who made them."""
        self._options = parts.options
        self._parts = parts
        self._connector: _Connector | None = None
        self._targets: dict[str | tuple[str, TlsPolicy], _Target] = {}
        self._in_flight: set[_Handler] = set()
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
        except asyncio.CancelledError as cut:
            if not deadline.passed():
                raise
            kind, detail = late_in(cut, connected=attempt.line is not None)
        except Exception as fault:  # the port's promise: every fault is an outcome
            kind, detail = classify(fault)
        finally:
            deadline.call_off()
            if attempt.line is not None:
                self._cut(attempt.line)
        duration_s = time.monotonic() - began
        if attempt.message is None:
            return Outcome(kind=kind, duration_s=duration_s, detail=detail)
        values = _values(attempt.message)
        outcome = answered(attempt.message.code, values, attempt.body, duration_s, detail)
        return outcome._replace(control=control_of(values)) if self._options.obey_control else outcome

    async def close(self) -> None:
        """Close every connection; requests in flight end as ``RESET``, later ones are refused."""
        self._closed = True
        for protocol in self._in_flight:
            protocol.abort()
        if self._connector is not None:
            await self._connector.close(abort_ssl=True)
            self._connector = None
        self._targets.clear()

    async def _run(self, request: SignedRequest, attempt: _Attempt) -> None:
        access = request.access
        policy = None if access is None else access.tls
        key = request.url if policy is None else (request.url, policy)
        target = self._targets.get(key) or await self._target(request.url, policy)
        head = write_head(target.head, request)
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
            if target.context is not None and not line.peer.resumable:
                line.peer.resumable = True
                target.context.keep(line.transport.get_extra_info("ssl_object"))
            if self._loop.time() < line.peer.ends_at:
                line.connection.release()  # to the pool, which closes it if the server said so
            else:
                line.connection.close()

    async def _connect(self, target: _Target) -> _Line:
        """Return a connection on which the first byte can be written now.

        One that died in the pool is thrown away and replaced once: nothing was written on it.

        Raises:
            ConnectionResetError: the second one was closed by the server before it was used, too.
        """
        connector = self._connector
        if connector is None:
            raise AttemptFailed(Kind.CLIENT_ERROR, "the sender is closed")
        for last in (False, True):
            connection = await connector.connect(target.request, [], _NO_BOUND)
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
        if not isinstance(protocol, _Handler) or protocol.should_close:
            return None
        transport = protocol.transport
        if transport is None or transport.is_closing():
            return None
        peer = protocol.peer
        if peer is None:
            peer = protocol.peer = _Peer(transport, self._loop.time() + self._options.connection_max_age_s)
        if peer.gone():
            return None
        return _Line(connection, protocol, transport, peer)

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

    async def _target(self, text: str, policy: TlsPolicy | None) -> _Target:
        """Work out what a URL means, and remember it."""
        url = read_url(text, self._options.egress)
        tls = url.scheme == "https"
        context = await self._parts.tls.of(policy) if tls else None
        if self._closed:
            raise AttemptFailed(Kind.CLIENT_ERROR, "the sender is closed")
        if self._connector is None:
            self._connector = _Connector(self._parts.dialer, self._options)
        target = _Target(
            request=ClientRequest("POST", url, loop=self._loop, ssl=context or True),
            head=first_lines(url),
            context=context,
        )
        if len(self._targets) >= _TARGETS:
            del self._targets[next(iter(self._targets))]
        self._targets[text if policy is None else (text, policy)] = target
        return target


def _values(message: RawResponseMessage) -> Callable[[str], Sequence[str]]:
    return lambda name: message.headers.getall(name, ())


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
