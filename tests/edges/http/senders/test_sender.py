"""The promises of every Sender: the real one with real servers, and the fake of the flow tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Protocol

import pytest
import pytest_asyncio

from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.edges.http import SenderOptions
from consumer.ports import Sender
from tests.support.fakes_sender import FakeSender, Reply
from tests.support.loopback import SENDERS, SOON_S, BuildSender
from tests.support.processes.children import free_port
from tests.support.servers.raw_server import Call, RawServer

pytestmark = pytest.mark.timeout(120)

LIMIT = 1_000  #: max_response_bytes of both


class World(Protocol):
    """A sender, and endpoints for it with set answers."""

    sender: Sender

    async def endpoint(self, reply: Reply) -> str:
        """Return the URL of an endpoint that always replies so."""

    def bodies(self, url: str) -> list[bytes]:
        """Return the request bodies that arrived at *url*."""

    async def arrived(self, url: str, count: int) -> None:
        """Wait for *count* requests at *url*."""


class FakeWorld:
    """The fake is sender and endpoints in one."""

    def __init__(self) -> None:
        self.fake = FakeSender(max_response_bytes=LIMIT)
        self.sender: Sender = self.fake
        self._endpoints = 0

    async def endpoint(self, reply: Reply) -> str:
        self._endpoints += 1
        url = f"https://hook{self._endpoints}.example/"
        self.fake.on(url, reply)
        return url

    def bodies(self, url: str) -> list[bytes]:
        return [request.body for request in self.fake.sent_to(url)]

    async def arrived(self, url: str, count: int) -> None:
        await self.fake.arrived(count)


class RealWorld:
    """The real sender, and one raw server for each endpoint."""

    def __init__(self, stack: AsyncExitStack, build: BuildSender) -> None:
        self.sender: Sender = build(
            SenderOptions(max_response_bytes=LIMIT, egress=parse_rule(["127.0.0.0/8"]))
        )
        self._stack = stack
        self._servers: dict[str, RawServer] = {}
        self._came = asyncio.Event()

    async def endpoint(self, reply: Reply) -> str:
        if reply.fault is OutcomeKind.REFUSED:
            return f"http://127.0.0.1:{free_port()}/"

        async def talk(call: Call) -> None:
            while True:
                await call.request()
                self._came.set()
                if reply.fault is OutcomeKind.RESET:
                    return
                if reply.hang:
                    await call.gone()
                if reply.gate is not None:
                    await reply.gate.wait()
                await call.say(as_bytes(reply))

        server = await self._stack.enter_async_context(RawServer(talk))
        self._servers[server.url()] = server
        return server.url()

    def bodies(self, url: str) -> list[bytes]:
        return [request.partition(b"\r\n\r\n")[2] for request in self._servers[url].requests]

    async def arrived(self, url: str, count: int) -> None:
        while len(self._servers[url].requests) < count:
            self._came.clear()
            await self._came.wait()


def as_bytes(reply: Reply) -> bytes:
    """Return the reply as it goes over the wire."""
    head = f"HTTP/1.1 {reply.status} Status\r\n"
    if reply.retry_after is not None:
        head += f"Retry-After: {reply.retry_after}\r\n"
    if reply.location is not None:
        head += f"Location: {reply.location}\r\n"
    if reply.status != 204:
        head += f"Content-Length: {len(reply.body)}\r\n"
    return head.encode() + b"\r\n" + reply.body


@pytest_asyncio.fixture(params=[*SENDERS, "fake"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Both real ones and the fake, each with its sender closed at the end."""
    async with AsyncExitStack() as stack:
        build = SENDERS.get(request.param)
        built: World = FakeWorld() if build is None else RealWorld(stack, build)
        yield built
        await built.sender.close()


def to(url: str, *, body: bytes = b"{}", timeout_s: float = 5.0) -> SignedRequest:
    """Return a request as the flow makes it."""
    return SignedRequest(url=url, headers=[("webhook-id", "msg_1")], body=body, timeout_s=timeout_s)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_a_success(world: World, status: int) -> None:
    """SW-35, fault 34: any 2xx is OK, with its status and the start of its body."""
    body = b"" if status == 204 else b"thanks \xff"
    url = await world.endpoint(Reply(status=status, body=body))

    outcome = await world.sender.send(to(url, body=b'{"n":1}'))

    assert (outcome.kind, outcome.status, outcome.body) == (OutcomeKind.OK, status, body)
    assert world.bodies(url) == [b'{"n":1}']


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(world: World, status: int) -> None:
    """SW-36, fault 36: the place it points to is recorded and never visited."""
    inside = await world.endpoint(Reply())
    url = await world.endpoint(Reply(status=status, location=inside))

    outcome = await world.sender.send(to(url))

    assert (outcome.kind, outcome.status, outcome.location) == (OutcomeKind.HTTP_3XX, status, inside)
    assert world.bodies(inside) == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, OutcomeKind.HTTP_4XX),
        (404, OutcomeKind.HTTP_4XX),
        (410, OutcomeKind.HTTP_4XX),
        (500, OutcomeKind.HTTP_5XX),
        (599, OutcomeKind.HTTP_5XX),
    ],
)
async def test_other_statuses_are_failures_by_class(world: World, status: int, kind: OutcomeKind) -> None:
    """SW-35, faults 37, 38, 40: kind and status distinguish them."""
    url = await world.endpoint(Reply(status=status, body=b"no"))

    outcome = await world.sender.send(to(url))

    assert (outcome.kind, outcome.status, outcome.body) == (kind, status, b"no")


@pytest.mark.parametrize("value", ["120", "Wed, 21 Oct 2015 07:28:00 GMT", "garbage"])
async def test_retry_after_is_handed_on_as_received(world: World, value: str) -> None:
    """SW-40, fault 39: the sender does not judge it."""
    url = await world.endpoint(Reply(status=429, retry_after=value))

    assert (await world.sender.send(to(url))).retry_after == value


async def test_the_response_body_is_bounded(world: World) -> None:
    """Fault 34: at most max_response_bytes are kept, and the status still decides."""
    url = await world.endpoint(Reply(body=b"x" * (LIMIT + 1)))

    outcome = await world.sender.send(to(url))

    assert (outcome.kind, outcome.body) == (OutcomeKind.OK, b"x" * LIMIT)


async def test_the_total_deadline_ends_an_attempt(world: World) -> None:
    """SW-42, fault 53: an endpoint that hangs costs no more than the deadline; its outcome is a time-out."""
    url = await world.endpoint(Reply(hang=True))

    outcome = await world.sender.send(to(url, timeout_s=0.2))

    assert (outcome.kind, outcome.status) == (OutcomeKind.TIMEOUT_TOTAL, None)
    assert 0.15 <= outcome.duration_s < SOON_S


@pytest.mark.parametrize("kind", [OutcomeKind.REFUSED, OutcomeKind.RESET])
async def test_a_broken_connection_is_an_outcome(world: World, kind: OutcomeKind) -> None:
    """Fault 43: refused, and closed before a response."""
    url = await world.endpoint(Reply(fault=kind))

    outcome = await world.sender.send(to(url))

    assert (outcome.kind, outcome.status) == (kind, None)
    assert outcome.detail


async def test_requests_run_at_the_same_time(world: World) -> None:
    """S0-8: nothing in a sender makes requests to one endpoint wait for each other."""
    gate = asyncio.Event()
    url = await world.endpoint(Reply(gate=gate))

    sends = [asyncio.create_task(world.sender.send(to(url))) for _ in range(20)]
    await world.arrived(url, 20)
    gate.set()

    assert [outcome.kind for outcome in await asyncio.gather(*sends)] == [OutcomeKind.OK] * 20


async def test_cancelling_passes_through(world: World) -> None:
    """Fault 58: a caller that gives up gets its CancelledError, not an outcome."""
    url = await world.endpoint(Reply(hang=True))
    send = asyncio.create_task(world.sender.send(to(url)))
    await world.arrived(url, 1)

    send.cancel()

    with pytest.raises(asyncio.CancelledError):
        await send


async def test_a_closed_sender_refuses_without_raising(world: World) -> None:
    """Fault 58: a request after the end gets an outcome too; closing twice is harmless."""
    url = await world.endpoint(Reply())
    await world.sender.send(to(url))
    await world.sender.close()
    await world.sender.close()

    outcome = await world.sender.send(to(url))

    assert outcome.kind is OutcomeKind.CLIENT_ERROR
    assert len(world.bodies(url)) == 1
