"""An httpx2 transport whose connections come from our dialer.

Data flow: httpx2.Request -> (GuardedTransport) httpcore2's pool -> (_Connection) dialer -> (_Http11) request
out, :class:`.Answer` in, on a Pipe.
The pool and the types belong to httpx2; addresses, proxy, TLS and the reading of answers are ours.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import AsyncIterable, AsyncIterator
from typing import cast

import httpcore2
import httpx2

from consumer.core.access import TlsPolicy
from consumer.core.model import OutcomeKind
from consumer.edges.http.connect.guard import Goal
from consumer.edges.http.connect.tls import ResumingContext
from consumer.edges.http.options import SenderOptions
from consumer.edges.http.outcomes import AttemptFailed
from consumer.edges.http.parts import Parts
from consumer.edges.http.response.answer import Answer
from consumer.edges.http.response.unread import QUIET_S
from consumer.edges.http.senders.httpx_pipe import Pipe, PipeStream

ON_TURN = "leveret.on_turn"  #: extension of a request: called once it waits for no other request
ON_OPEN = "leveret.on_open"  #: the same, called once there is a connection
ANSWER = "leveret.answer"  #: extension of a response: its Answer, with the headers

_READ_BYTES = 65_536
_NEW, _BUSY, _IDLE, _CLOSED = "new", "busy", "idle", "closed"
_NO_LIMIT = sys.maxsize  #: the reader of the body bounds it
_BREAK = re.compile(rb"[\r\n\0]")


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests unchanged: no redirects, cookies or environment. Faults are httpcore2's or ours."""

    def __init__(self, parts: Parts, policy: TlsPolicy | None = None) -> None:
        self._pool = _Pool(parts, policy)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request* and return the response with its body unread.

        Raises:
            AttemptFailed: no connection was made, or the answer is not valid HTTP.
            httpcore2.NetworkError: the connection broke.
        """
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            status_code=answer.status,
            stream=_Body(answer),
            extensions=dict(answer.extensions),
        )

    async def sweep(self) -> bool:
        """Close connections that were idle for too long; return whether none is left."""
        for connection in self._pool.connections:
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
        return all(connection.is_closed() for connection in self._pool.connections)

    def relieve(self) -> None:
        """Close every idle connection."""
        for connection in self._pool.connections:
            if isinstance(connection, _Connection) and connection.is_idle():
                connection.cut()

    async def aclose(self) -> None:
        """Cut every connection."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of a response, part by part."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        """Return the connection to the pool, or cut it if some of the body is left."""
        await self._answer.aclose()


class _Pool(httpcore2.AsyncConnectionPool):
    """httpcore2's pool with our connections."""

    def __init__(self, parts: Parts, policy: TlsPolicy | None) -> None:
        super().__init__(
            max_connections=parts.options.connections_per_host or None,
            keepalive_expiry=parts.options.keepalive_s,
        )
        self._parts = parts
        self._policy = policy

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Make a connection for the pool when none is free."""
        return _Connection(origin, self._parts, self._policy)


class _Connection(httpcore2.AsyncConnectionInterface):
    """One connection: not open yet, open, or failed."""

    def __init__(self, origin: httpcore2.Origin, parts: Parts, policy: TlsPolicy | None) -> None:
        self._origin = origin
        self._parts = parts
        self._policy = policy
        self._context: ResumingContext | None = None  #: TLS context
        self._http: _Http11 | None = None
        self._failed = False
        self._resumable = False  #: whether its TLS session is kept
        self._closed = False  #: whether the pool closed it before it was open
        self._ends_at = math.inf  #: monotonic seconds after which it is not kept

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Open the connection if necessary, and send."""
        _notify(request, ON_TURN)
        if self._http is None:
            try:
                self._http = await self._open()
            except BaseException:
                self._failed = True
                raise
        _notify(request, ON_OPEN)
        response = await self._http.handle_async_request(request)
        if not self._resumable:
            self._resumable = True
            self._keep_session(self._http)
        return response

    def _keep_session(self, http: _Http11) -> None:
        tls = http.stream.get_extra_info("ssl_object")
        if tls is not None and self._context is not None:
            self._context.keep(tls)

    async def _open(self) -> _Http11:
        tls = self._origin.scheme == b"https"
        goal = Goal(self._origin.host.decode("ascii"), self._origin.port, tls)
        self._context = await self._parts.tls.of(self._policy) if tls else None
        transport, pipe = await self._parts.dialer.open(goal, self._context, Pipe)
        if self._closed:
            transport.abort()
            raise httpcore2.ConnectError("the sender was closed")
        self._ends_at = time.monotonic() + self._parts.options.connection_max_age_s
        return _Http11(PipeStream(transport, pipe), self._parts.options)

    async def aclose(self) -> None:
        """Abort the connection."""
        self.cut()

    def cut(self) -> None:
        """Abort the connection."""
        self._closed = True
        if self._http is not None:
            self._http.close()

    def info(self) -> str:
        """Return its state."""
        return "not open" if self._http is None else self._http.state

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        """Return whether it leads to *origin*."""
        return origin == self._origin

    def is_connected(self) -> bool:
        """Return whether it is open."""
        return self._http is not None and self._http.state != _CLOSED

    def is_available(self) -> bool:
        """Return whether it can take a request now."""
        return self._http is not None and self._http.is_available()

    def has_expired(self) -> bool:
        """Return whether it should be closed."""
        if self._http is None:
            return self._failed
        return time.monotonic() >= self._ends_at or self._http.has_expired()

    def is_idle(self) -> bool:
        """Return whether no request is in progress on it."""
        return self._failed if self._http is None else self._http.state == _IDLE

    def is_closed(self) -> bool:
        """Return whether it is unusable for good."""
        return self._failed if self._http is None else self._http.state == _CLOSED


def _notify(request: httpcore2.Request, event: str) -> None:
    callback = request.extensions.get(event)
    if callback is not None:
        callback()


class _Http11:
    """HTTP/1.1 on one connection: one request and its answer at a time."""

    def __init__(self, stream: PipeStream, options: SenderOptions) -> None:
        self.stream = stream
        self.state = _NEW
        self._keepalive_s = options.keepalive_s
        #: Whether a connection may wait; with a bound the pool would not notice the end of the wait.
        self._waits = not options.connections_per_host
        self._rests_from = math.inf  #: monotonic seconds since which no request has been out
        self._free_at = 0.0  #: monotonic seconds from which it may take the next request
        self._quiet = False  #: whether a 204 was followed by nothing

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send the request, and read the head of its answer.

        Raises:
            AttemptFailed: the answer is missing or not valid HTTP.
            httpcore2.NetworkError: the connection broke.
            httpcore2.ConnectionNotAvailable: the connection is unusable; the pool takes another one.
        """
        if self.state != _NEW and (not self.is_available() or self.stream.spent()):
            raise httpcore2.ConnectionNotAvailable
        self._quiet = self._quiet or self._free_at > 0  # the wait after a 204 ended, and nothing came
        self.state = _BUSY
        try:
            self.stream.write(_head(request))
            async for part in cast(AsyncIterable[bytes], request.stream):
                self.stream.write(part)
            answer = Answer(_NO_LIMIT)
            while not answer.status:
                await self.read(answer)
        except BaseException:
            self.close()
            raise
        return httpcore2.Response(
            status=answer.status, content=_Content(self, answer), extensions={ANSWER: answer}
        )

    async def read(self, answer: Answer) -> None:
        """Pass the next bytes to *answer*."""
        data = await self.stream.read(_READ_BYTES)
        if data:
            answer.feed(data)
        else:
            answer.end()

    def finish(self, answer: Answer) -> None:
        """End the request after its answer was read as far as needed."""
        if self.state == _CLOSED:
            return
        unsure = answer.bodiless and not self._quiet
        if not answer.kept or (unsure and not self._waits):
            self.close()
            return
        self.state = _IDLE
        self._rests_from = time.monotonic()
        self._free_at = self._rests_from + QUIET_S if unsure else 0.0

    def is_available(self) -> bool:
        """Return whether it can take a request now."""
        return self.state == _IDLE and (not self._free_at or time.monotonic() >= self._free_at)

    def has_expired(self) -> bool:
        """Return whether it should be closed."""
        if self.state != _IDLE:
            return False
        return time.monotonic() > self._rests_from + self._keepalive_s or self.stream.spent()

    def close(self) -> None:
        """Abort the connection."""
        self.state = _CLOSED
        self.stream.abort()


class _Content:
    """The body of an answer, part by part."""

    def __init__(self, http: _Http11, answer: Answer) -> None:
        self._http = http
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        answer = self._answer
        while True:
            if answer.body:
                part = bytes(answer.body)
                answer.body.clear()
                yield part
            elif answer.over:
                break
            else:
                await self._http.read(answer)
        if answer.fault:
            raise AttemptFailed(OutcomeKind.PROTOCOL, answer.fault)

    async def aclose(self) -> None:
        """Keep the connection, or cut it if some of the body is left."""
        self._http.finish(self._answer)


def _head(request: httpcore2.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method, request.url.target)]
    lines += [b"%b: %b" % header for header in request.headers]
    if any(_BREAK.search(line) for line in lines):
        raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the request contains a line break or NUL")
    return b"\r\n".join((*lines, b"", b""))
