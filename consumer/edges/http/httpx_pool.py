"""An httpx2 transport whose connections our dialer opens.

Data flow: httpx2.Request -> (GuardedTransport) httpcore2's pool -> (_Connection) dialer -> HTTP/1.1 on a Pipe
The pool, HTTP/1.1 and the types are httpx2's; addresses, proxy and TLS are ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator

import httpcore2
import httpx2

from consumer.core.access import TlsPolicy
from consumer.edges.http.guard import Goal
from consumer.edges.http.parts import Parts
from consumer.edges.http.pipe import Pipe, PipeStream
from consumer.edges.http.tls import ResumingContext

ON_TURN = "leveret.on_turn"  #: extension of a request: called once it need not wait for others to end
ON_OPEN = "leveret.on_open"  #: the same, called once there is a connection


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests as they are: no redirects, cookies or environment. Faults are httpcore2's or ours."""

    def __init__(self, parts: Parts, policy: TlsPolicy | None = None) -> None:
        self._pool = _Pool(parts, policy)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request* and return the response with its body unread.

        Raises:
            AttemptFailed: there is no connection.
            httpcore2.NetworkError, httpcore2.ProtocolError: it broke, or what came is no HTTP.
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
            headers=answer.headers,
            stream=_Body(answer),
            extensions=dict(answer.extensions),
        )

    async def sweep(self) -> bool:
        """Close what has been idle for too long; return whether nothing is left."""
        for connection in self._pool.connections:
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
        return all(connection.is_closed() for connection in self._pool.connections)

    async def aclose(self) -> None:
        """Cut every connection."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of a response, as it comes."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        """Give the connection back, or cut it if something is left."""
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
        """Called by the pool when no kept connection is free."""
        return _Connection(origin, self._parts, self._policy)


class _Connection(httpcore2.AsyncConnectionInterface):
    """One connection: not there yet, open, or failed."""

    def __init__(self, origin: httpcore2.Origin, parts: Parts, policy: TlsPolicy | None) -> None:
        self._origin = origin
        self._parts = parts
        self._policy = policy
        self._context: ResumingContext | None = None  #: of TLS
        self._http: _Http11 | None = None
        self._failed = False
        self._resumable = False  #: True once its TLS session is kept
        self._closed = False  #: the pool closed it before it was open
        self._ends_at = math.inf  #: monotonic seconds: from then on it is not kept

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Open it if need be, and send."""
        _tell(request, ON_TURN)
        if self._http is None:
            try:
                self._http = await self._open()
            except BaseException:
                self._failed = True
                raise
        _tell(request, ON_OPEN)
        response = await self._http.handle_async_request(request)
        if not self._resumable:
            self._resumable = True
            self._keep_session(response)
        return response

    def _keep_session(self, response: httpcore2.Response) -> None:
        tls = response.extensions["network_stream"].get_extra_info("ssl_object")
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
        return _Http11(self._origin, PipeStream(transport, pipe), self._parts.options.keepalive_s)

    async def aclose(self) -> None:
        """Cut it."""
        self._closed = True
        if self._http is not None:
            await self._http.aclose()

    def info(self) -> str:
        """Say what state it is in."""
        return "not open" if self._http is None else self._http.info()

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        """Whether it leads there."""
        return origin == self._origin

    def is_connected(self) -> bool:
        """Whether it is open."""
        return self._http is not None and self._http.is_connected()

    def is_available(self) -> bool:
        """Whether it can take a request now."""
        return self._http is not None and self._http.is_available()

    def has_expired(self) -> bool:
        """Whether it should be closed."""
        if self._http is None:
            return self._failed
        return time.monotonic() >= self._ends_at or self._http.has_expired()

    def is_idle(self) -> bool:
        """Whether nothing is under way on it."""
        return self._failed if self._http is None else self._http.is_idle()

    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._failed if self._http is None else self._http.is_closed()


def _tell(request: httpcore2.Request, event: str) -> None:
    told = request.extensions.get(event)
    if told is not None:
        told()


class _Http11(httpcore2.AsyncHTTP11Connection):
    """httpcore2's HTTP/1.1; a connection with bytes left over is not used again.

    What follows a response in the same segment lies in the parser, where httpcore2 does not look: it would
    be taken for the next request's. the test
    ``test_a_connection_with_something_left_over_is_not_used_again`` holds it.
    """

    def has_expired(self) -> bool:
        """Whether it should be closed."""
        return bool(self._h11_state.trailing_data[0]) or super().has_expired()
