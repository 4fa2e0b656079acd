"""Adapt aiohttp's pool: our dialer opens its connections, and :class:`.Answer` reads their responses.

Data flow: AiohttpSender -> (Connector) kept connection, or a new one -> (Handler) bytes -> Answer -> sender.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

from aiohttp import BaseConnector, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

from consumer.edges.http.connect.dial import Dialer
from consumer.edges.http.connect.guard import Goal
from consumer.edges.http.connect.tls import ResumingContext
from consumer.edges.http.options import SenderOptions
from consumer.edges.http.outcomes import IN_QUEUE, AttemptFailed
from consumer.edges.http.response.answer import Answer
from consumer.edges.http.response.unread import SocketPoll

KEPT_MAX = 2_000  #: idle connections of one sender, at most; then the half that is idle for longest is closed


class Connector(BaseConnector):
    """aiohttp's pool, with connections from our dialer."""

    def __init__(self, dialer: Dialer, options: SenderOptions) -> None:
        super().__init__(
            limit=0, limit_per_host=options.connections_per_host, keepalive_timeout=options.keepalive_s
        )
        self._dialer = dialer
        self._kept = 0  #: connections kept since the last count

    def relieve(self) -> None:
        """Close every idle connection, as file handles are scarce."""
        for kept in self._conns.values():
            for protocol, _ in kept:
                protocol.abort()

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        self._kept += 1
        if self._kept > KEPT_MAX:
            self._close_oldest()

    def _close_oldest(self) -> None:
        """Count the idle connections, and close the older half if there are too many."""
        every = ((at, protocol) for each in self._conns.values() for protocol, at in each)
        kept = sorted((one for one in every if one[1].is_connected()), key=lambda one: one[0])
        self._kept = len(kept)
        if len(kept) >= KEPT_MAX:
            self._kept = len(kept) - len(kept) // 2
            for _, protocol in kept[: len(kept) // 2]:
                protocol.abort()

    async def _create_connection(
        self, req: ClientRequest, traces: list[Any], timeout: ClientTimeout
    ) -> ResponseHandler:
        url, context = req.url, req.ssl
        goal = Goal(url.raw_host or "", url.port or 0, tls=url.scheme == "https")
        own = context if goal.tls and isinstance(context, ssl.SSLContext) else None
        _, protocol = await self._dialer.open(goal, own, lambda: Handler(self._loop))
        return protocol

    async def _wait_for_available_connection(self, key: ConnectionKey, traces: list[Any]) -> None:
        """Note on a cancellation that no connection was opened, as all were in use."""
        try:
            await super()._wait_for_available_connection(key, traces)
        except asyncio.CancelledError as cut:
            cut.add_note(IN_QUEUE)
            raise


@dataclass(slots=True)
class PoolTarget:
    """A parsed URL with its TLS context."""

    request: ClientRequest  #: identifies the pool's entry for the connector; it is never sent itself
    head: str  #: request line and Host
    context: ResumingContext | None  #: TLS context; None for plain HTTP
    quiet: bool = False  #: whether one of its 204s was followed by nothing
    watched: bool = False  #: whether one of its connections is watched to find that out

    def watch(self) -> None:
        """Note that one of its connections is watched."""
        self.watched = True

    def seen(self, *, quiet: bool) -> None:
        """Note the end of the watch, and whether nothing came."""
        self.watched, self.quiet = False, quiet

    def spoke(self) -> None:
        """Note bytes on a connection while no request was out."""
        self.quiet = False


class Handler(ResponseHandler):
    """The protocol of a connection: passes its bytes to the expected answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.target: PoolTarget | None = None  #: target of the last request
        self.poll: SocketPoll | None = None  #: None until the connection's first use
        self.ends_at = 0.0  #: loop time after which the connection is not kept
        self._session_kept = False  #: whether its TLS session is kept
        self._answer: Answer | None = None  #: None while no request is out
        self._finished: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    @property
    def should_close(self) -> bool:
        """Whether the pool must close the connection."""
        return self._should_close or self.transport is None or self._answer is not None

    def first_use(self, transport: asyncio.Transport, ends_at: float) -> SocketPoll:
        """Note the loop time at which the connection ends; return the kernel's view of it."""
        self.poll, self.ends_at = SocketPoll(transport), ends_at
        return self.poll

    def keep_session(self, context: ResumingContext) -> None:
        """Let *context* keep the TLS session of this connection, once."""
        if not self._session_kept and self.transport is not None:
            self._session_kept = True
            context.keep(self.transport.get_extra_info("ssl_object"))

    def begin(self, target: PoolTarget, answer: Answer) -> None:
        """Read *answer* from now on."""
        self.target = target
        self._answer = answer

    async def finish(self) -> None:
        """Return once the answer is over.

        Raises:
            AttemptFailed, OSError: it is not valid HTTP, or the connection broke; it may have a status
                already.
        """
        answer = self._answer
        if self._failure is None and answer is not None and not answer.over:
            self._finished = self._loop.create_future()
            try:
                await self._finished
            finally:
                self._finished = None
        if self._failure is not None:
            raise self._failure

    def rest(self) -> None:
        """End the request: bytes that arrive from now on belong to none."""
        self._answer = None

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        answer = self._answer
        if answer is None:
            if self.target is not None:
                self.target.spoke()
            self.abort()
            return
        try:
            answer.feed(data)
        except AttemptFailed as fault:
            self._failure = fault
            self._wake()
        else:
            if answer.over:
                self._wake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        super().connection_lost(exc)
        if self._answer is not None and not self._answer.over and self._failure is None:
            try:
                self._answer.end()
            except AttemptFailed as fault:
                self._failure = fault
            if isinstance(exc, Exception):
                self._failure = exc
        self._wake()

    def _wake(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
