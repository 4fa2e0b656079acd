"""Customers with one endpoint each, which change their behaviour while the proof runs.

Data flow: webhook -> the path's customer -> its present behaviour -> answer; ids that it took are kept.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.support.servers.raw_server import Call, RawServer, ok

ID = re.compile(rb"^webhook-id: *(\S+)\r$", re.MULTILINE | re.IGNORECASE)

Behaviour: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Returns the whole answer to the request with this webhook-id."""


def well(delay_s: float = 0.0) -> Behaviour:
    """Answer 200 after *delay_s*."""

    async def behave(_: str) -> bytes:
        await asyncio.sleep(delay_s)
        return ok()

    return behave


def always(status: bytes) -> Behaviour:
    """Answer *status*, such as ``500 Internal Server Error``."""

    async def behave(_: str) -> bytes:
        return ok(status=status)

    return behave


def flaky(every: int) -> Behaviour:
    """Answer 503 to the first request of every so many webhooks, and 200 to all other requests."""
    known: set[str] = set()

    async def behave(webhook_id: str) -> bytes:
        is_new = webhook_id not in known
        known.add(webhook_id)
        return ok(status=b"503 Service Unavailable") if is_new and len(known) % every == 0 else ok()

    return behave


async def hangs(_: str) -> bytes:
    """Never answer."""
    return await asyncio.Event().wait() and b""


def limited(per_s: int, penalty_s: int) -> Behaviour:
    """Answer 429 for *penalty_s* from the request on that is one too many within a second."""
    recent: deque[float] = deque([0.0] * per_s, maxlen=per_s)
    until = 0.0

    async def behave(_: str) -> bytes:
        nonlocal until
        now = time.monotonic()
        if now >= until and now - recent[0] < 1:
            until = now + penalty_s
        recent.append(now)
        if now < until:
            left = b"Retry-After: %d\r\n" % (int(until - now) + 1)
            return ok(status=b"429 Too Many Requests", headers=left)
        return ok()

    return behave


@dataclass(slots=True)
class Customer:
    """A tenant with one subscription, and its endpoint.

    Attributes:
        burst: Events that it publishes at once.
        rounds: Rounds of the load from one burst to the next.
        is_tls: Whether its endpoint speaks HTTPS.
        fields: Further ones of its subscription.
        taken: Ids of the webhooks that its endpoint answered with 200.
        published: Ids of its events.
    """

    tenant: str
    name: str = "shop"
    behave: Behaviour = field(default_factory=well)
    burst: int = 1
    rounds: int = 1
    is_tls: bool = False
    fields: Mapping[str, object] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    published: list[str] = field(default_factory=list)

    @property
    def subscription(self) -> str:
        """The name that metrics and commands use."""
        return f"{self.tenant}/{self.name}"

    @property
    def host(self) -> str:
        """The name of its server."""
        return f"hooks.{self.tenant}.example"

    def missing(self, before: int | None = None) -> Sequence[str]:
        """Return its events that its endpoint did not take; of the first *before* ones, if given."""
        return [each for each in self.published[:before] if each not in self.taken]


class Site(RawServer):
    """A server for the endpoints of several customers."""

    def __init__(self, customers: Sequence[Customer], **options: object) -> None:
        super().__init__(self._answer, **options)  # type: ignore[arg-type]  # those of RawServer
        self._by_name = {customer.subscription.encode(): customer for customer in customers}
        self._calls: set[Call] = set()

    def url_of(self, customer: Customer) -> str:
        """Return the URL of an endpoint."""
        return self.url(f"/{customer.subscription}", host=customer.host)

    def cut(self) -> None:
        """Close all connections, as a restart of the server does."""
        for call in self._calls:
            call.writer.transport.abort()

    async def _answer(self, call: Call) -> None:
        self._calls.add(call)
        try:
            while True:
                await self._answer_one(call)
        finally:
            self._calls.discard(call)

    async def _answer_one(self, call: Call) -> None:
        request = await call.request()
        self.requests.clear()
        path = request.split(b" ", 2)[1]
        customer, found = self._by_name[path.removeprefix(b"/")], ID.search(request)
        webhook_id = "" if found is None else found[1].decode()
        answer = await customer.behave(webhook_id)
        if answer.startswith(b"HTTP/1.1 200"):
            customer.taken.add(webhook_id)
        await call.say(answer)
