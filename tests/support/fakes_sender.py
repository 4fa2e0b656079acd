"""A Sender without a network, for flow tests; passes the same contract as the real one.

Data flow: test -> (on) replies per URL -> flow sends -> (sent) the requests, and the set outcomes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from consumer.core.model import Control, Outcome, OutcomeKind, SignedRequest

_BY_CLASS = {2: OutcomeKind.OK, 3: OutcomeKind.HTTP_3XX, 4: OutcomeKind.HTTP_4XX, 5: OutcomeKind.HTTP_5XX}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How an endpoint treats one request."""

    status: int = 200
    retry_after: str | None = None
    location: str | None = None
    control: Control | None = None  #: ``webhook-delivery``, as a sender that obeys it hands it on
    body: bytes = b""
    fault: OutcomeKind | None = None  #: the outcome, without a response
    hang: bool = False  #: never answers: the request's deadline ends it
    gate: asyncio.Event | None = None  #: answers once this is set


class FakeSender:
    """Answers as the test set it up; every other URL answers 200."""

    def __init__(self, *, max_response_bytes: int = 16_384) -> None:
        self.sent: list[SignedRequest] = []  #: every request, in the order of its start
        self.in_flight = 0
        self.peak_in_flight = 0
        self._max_response_bytes = max_response_bytes
        self._replies: dict[str, list[Reply]] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def on(self, url: str, *replies: Reply) -> None:
        """Answer requests to *url* with *replies* in turn; the last one stays."""
        self._replies[url] = list(replies)

    def sent_to(self, url: str) -> list[SignedRequest]:
        """Return the requests to one URL."""
        return [request for request in self.sent if request.url == url]

    async def arrived(self, count: int) -> None:
        """Wait until *count* requests have begun in all."""
        while len(self.sent) < count:
            self._changed.clear()
            await self._changed.wait()

    async def send(self, request: SignedRequest) -> Outcome:
        """Answer as the test set it up; a reply after the deadline is a time-out."""
        if self._closed:
            return Outcome(kind=OutcomeKind.CLIENT_ERROR, duration_s=0.0, detail="the sender is closed")
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.sent.append(request)
        self._changed.set()
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            async with asyncio.timeout(request.timeout_s):
                reply = await self._reply(request.url)
        except TimeoutError:
            return Outcome(
                kind=OutcomeKind.TIMEOUT_TOTAL, duration_s=loop.time() - began, detail="no whole response"
            )
        finally:
            self.in_flight -= 1
        return self._outcome(reply, loop.time() - began)

    async def close(self) -> None:
        """Refuse later requests."""
        self._closed = True

    async def _reply(self, url: str) -> Reply:
        replies = self._replies.get(url) or [Reply()]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if reply.hang:
            await asyncio.Event().wait()
        if reply.gate is not None:
            await reply.gate.wait()
        return reply

    def _outcome(self, reply: Reply, duration_s: float) -> Outcome:
        if reply.fault is not None:
            return Outcome(kind=reply.fault, duration_s=duration_s, detail=str(reply.fault))
        success = reply.status < 300
        return Outcome(
            kind=_BY_CLASS[reply.status // 100],
            duration_s=duration_s,
            status=reply.status,
            retry_after=None if success else reply.retry_after,
            location=reply.location if 300 <= reply.status < 400 else None,
            body=reply.body[: self._max_response_bytes],
            control=reply.control,
        )
