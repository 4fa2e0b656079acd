"""Send webhooks with httpx2: the second sender, ``[sending] client = "httpx"``.

Data flow: flow.deliver -> (HttpxSender.send) httpx2.Request -> GuardedTransport of the endpoint -> bounded
body -> Outcome. It keeps the contract of :mod:`.aiohttp_sender`, at several times the CPU:
``bench/http_clients``.

**No request is sent twice.** Before httpcore2 takes a connection from the pool, it asks whether the
connection is still open and silent (:meth:`consumer.edges.http.senders.httpx_pipe.PipeStream.spent`). It
replaces any other connection before it writes a byte.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx2
from yarl import URL

from consumer.core.access import TlsPolicy
from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.edges.http.outcomes import (
    IN_QUEUE,
    AttemptFailed,
    answered,
    classify,
    control_of,
    late_in,
)
from consumer.edges.http.parts import Parts
from consumer.edges.http.response.answer import Answer
from consumer.edges.http.senders.connector import KEPT_MAX
from consumer.edges.http.senders.httpx_pool import ANSWER, ON_OPEN, ON_TURN, GuardedTransport
from consumer.edges.http.senders.request import read_url, write_head


@dataclass(slots=True)
class _Attempt:
    """The progress of one attempt."""

    had_turn: bool = False  #: whether it waits for no other request's connection
    connected: bool = False
    answer: Answer | None = None  #: None before its head is complete
    body: bytes = b""

    def took_turn(self) -> None:
        """Note that a connection is free, or is being opened."""
        self.had_turn = True

    def opened(self) -> None:
        """Note that there is a connection."""
        self.connected = True

    def answered(self, answer: Answer) -> None:
        """Its head is complete."""
        self.answer = answer

    def add(self, part: bytes, limit_bytes: int) -> bool:
        """Take a part of the body; return False once there is more than *limit_bytes*."""
        self.body += part
        if len(self.body) <= limit_bytes:
            return True
        self.body = self.body[:limit_bytes]
        return False


class HttpxSender:
    """Sends with httpx2: a :class:`consumer.ports.Sender`. It runs in the loop of its first :meth:`send`."""

    def __init__(self, parts: Parts) -> None:
        """Prepare; nothing is opened before the first request. The creator of *parts* closes them."""
        self._options = parts.options
        self._parts = parts
        self._transports: dict[tuple[str, TlsPolicy | None], GuardedTransport] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._sent = 0  #: requests since idle connections were last closed; each keeps at most one
        self._closed = False
        parts.handles.relieve.append(self._relieve)
        parts.tls.evicted.append(self._forget)

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request* under its total deadline and return the outcome.

        Returns:
            An Outcome in every case; unknown faults are ``CLIENT_ERROR`` with the type's name.

        Raises:
            asyncio.CancelledError: the caller cancelled it; the connection is cut.
        """
        began = time.monotonic()
        attempt = _Attempt()
        kind, detail = OutcomeKind.CLIENT_ERROR, ""
        bound = asyncio.timeout(request.timeout_s)
        try:
            async with bound:
                await self._run(request, attempt)
        except Exception as fault:  # the port's promise: every fault is an outcome
            late = bound.expired() and isinstance(fault, TimeoutError)
            kind, detail = self._late(attempt, fault.__cause__) if late else classify(fault)
        duration_s = time.monotonic() - began
        answer = attempt.answer
        if answer is None:
            return Outcome(kind=kind, duration_s=duration_s, detail=detail)
        options = self._options
        content = attempt.body, answer.content_type() if options.keep_type else ""
        outcome = answered(answer.status, answer.values, content, duration_s, detail)
        return outcome._replace(control=control_of(answer.values)) if options.obey_control else outcome

    def _late(self, attempt: _Attempt, cut: BaseException | None) -> tuple[OutcomeKind, str]:
        if cut is not None and not attempt.had_turn and self._options.connections_per_host:
            cut.add_note(IN_QUEUE)
        return late_in(cut, connected=attempt.connected)

    async def close(self) -> None:
        """Close every connection; requests in flight end as ``RESET``, later ones are refused."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
            self._sweeper = None
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def _run(self, request: SignedRequest, attempt: _Attempt) -> None:
        url = read_url(request.url, self._options.egress)
        write_head("\r\n\r\n", request)  # refuses headers that would break out of their line
        transport = self._transport(url, None if request.access is None else request.access.tls)
        self._sent += 1
        if self._sent > KEPT_MAX:
            self._relieve()
        response = await transport.handle_async_request(_request(url, request, attempt))
        try:
            attempt.answered(response.extensions[ANSWER])
            limit = self._options.max_response_bytes
            async for part in response.stream:  # type: ignore[union-attr]  # an async transport's is async
                if not attempt.add(part, limit):
                    break
        finally:
            await response.aclose()

    def _transport(self, url: URL, policy: TlsPolicy | None) -> GuardedTransport:
        """Return the transport of an endpoint: one for each, as a pool searches all of its connections."""
        if self._closed:
            raise AttemptFailed(OutcomeKind.CLIENT_ERROR, "the sender is closed")
        key = (f"{url.scheme}://{url.raw_authority}", policy)
        transport = self._transports.get(key)
        if transport is None:
            if self._sweeper is None or self._sweeper.done():
                self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
            transport = self._transports[key] = GuardedTransport(self._parts, policy)
        return transport

    def _relieve(self) -> None:
        """Close every idle connection: file handles are scarce, or too many may be idle."""
        self._sent = 0
        for transport in self._transports.values():
            transport.relieve()

    def _forget(self, policy: TlsPolicy) -> None:
        """Drop every transport with the context of *policy*; requests in progress end normally."""
        for key in [key for key in self._transports if key[1] == policy]:
            self._transports.pop(key).relieve()

    async def _sweep(self) -> None:
        """Close idle connections, and forget endpoints without any."""
        while True:
            await asyncio.sleep(max(self._options.keepalive_s, 0.1))
            for key, transport in list(self._transports.items()):
                if await transport.sweep():
                    self._transports.pop(key, None)


def _request(url: URL, request: SignedRequest, attempt: _Attempt) -> httpx2.Request:
    headers = [
        (b"Host", str(url.host_port_subcomponent).encode()),
        *((name.encode(), value.encode()) for name, value in request.headers),
        (b"Content-Length", b"%d" % len(request.body)),
    ]
    where = f"{url.scheme}://{url.host_port_subcomponent}/"
    return httpx2.Request(
        "POST",
        where,
        headers=headers,
        stream=httpx2.ByteStream(request.body),
        extensions={
            "target": url.raw_path_qs.encode(),
            ON_TURN: attempt.took_turn,
            ON_OPEN: attempt.opened,
        },
    )
