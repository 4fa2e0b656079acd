"""Where the real sender may go, and how it finds names, on both event loops."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from consumer.core.model import OutcomeKind
from consumer.edges.http import SenderOptions, WebhookSender
from consumer.edges.http.connect.guard import Goal
from consumer.edges.http.parts import Parts
from tests.support.loopback import LOOPBACK, OPTIONS, SOON_S, BuildSender, to
from tests.support.processes.children import free_port
from tests.support.servers.raw_server import RawServer, eventually, ok, says

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "10.0.0.1", "[fd00:ec2::254]", "[::ffff:10.0.0.1]", "127.1"]
)
async def test_a_forbidden_literal_is_blocked(sender: WebhookSender, host: str) -> None:
    """Faults 20, 21, 22: no connection is tried."""
    assert (await sender.send(to(f"https://{host}/"))).kind is OutcomeKind.BLOCKED


async def test_loopback_is_blocked_unless_allowed(build: BuildSender) -> None:
    """Fault 21: judged on the address that is dialled; the server sees no connection."""
    sender = build(SenderOptions())
    async with RawServer(says(ok())) as server:
        plain = await sender.send(to(server.url()))
        secure = await sender.send(to(server.url().replace("http:", "https:")))

        assert (plain.kind, secure.kind) == (OutcomeKind.BLOCKED, OutcomeKind.BLOCKED)
        assert server.connections == 0
    await sender.close()


async def test_any_forbidden_address_blocks_a_name(build: BuildSender) -> None:
    """Fault 23: one good address beside a bad one does not help."""

    async def both(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.1"]

    sender = build(OPTIONS, both)
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="hook.example")))

        assert (outcome.kind, outcome.detail) == (OutcomeKind.BLOCKED, "address 10.0.0.1 is not public")
        assert server.connections == 0
    await sender.close()


async def test_a_name_that_moves_is_judged_again(build: BuildSender) -> None:
    """Fault 24: the first answer is allowed, the second is not: no connection to it."""
    answers = [["127.0.0.1"], ["192.168.1.1"]]

    async def moving(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    sender = build(SenderOptions(egress=LOOPBACK), moving)
    async with RawServer(says(ok(headers=b"Connection: close\r\n"))) as server:
        outcomes = [await sender.send(to(server.url(host="hook.example"))) for _ in range(2)]

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK, OutcomeKind.BLOCKED]
    await sender.close()


async def test_names_are_found_without_the_loops_threads(sender: WebhookSender) -> None:
    """Fault 42: ``localhost`` works without an injected resolver, and the loop's own threads stay free."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="localhost")))

        assert outcome.kind is OutcomeKind.OK
    assert not any(thread.name.startswith("asyncio_") for thread in threading.enumerate())


@pytest.mark.parametrize(
    "fault",
    [
        socket.gaierror(socket.EAI_NONAME, "no such name"),
        socket.gaierror(socket.EAI_AGAIN, "server failed"),
        None,
    ],
    ids=["nxdomain", "servfail", "empty"],
)
async def test_a_name_that_is_not_found_is_dns(fault: OSError | None, build: BuildSender) -> None:
    """Fault 42: NXDOMAIN, SERVFAIL, and an answer without addresses."""

    async def failing(host: str, port: int) -> Sequence[str]:
        if fault is not None:
            raise fault
        return []

    sender = build(OPTIONS, failing)
    outcome = await sender.send(to("https://name.invalid/"))
    await sender.close()

    assert (outcome.kind, outcome.status) == (OutcomeKind.DNS, None)


async def test_a_name_server_that_is_silent_is_dns_in_its_own_time(build: BuildSender) -> None:
    """Fault 42: the look-up has a bound of its own, below the connect bound."""

    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    sender = build(SenderOptions(egress=LOOPBACK, resolve_timeout_s=0.2), silent)
    outcome = await sender.send(to("https://hook.example/", timeout_s=10))
    await sender.close()

    assert outcome.kind is OutcomeKind.DNS
    assert outcome.duration_s < SOON_S


async def test_a_name_with_two_hundred_addresses_is_bounded(build: BuildSender) -> None:
    """Fault 42: dead addresses are tried within the connect bound, and no longer."""

    async def many(host: str, port: int) -> Sequence[str]:
        return [f"127.0.0.{number}" for number in range(1, 201)]

    sender = build(SenderOptions(egress=LOOPBACK, connect_timeout_s=1), many)
    outcome = await sender.send(to(f"http://hook.example:{free_port()}/"))
    await sender.close()

    assert outcome.kind in {OutcomeKind.REFUSED, OutcomeKind.TIMEOUT_CONNECT}
    assert outcome.duration_s < SOON_S


async def test_a_fault_that_nobody_foresaw_is_an_outcome(build: BuildSender) -> None:
    """It names its type, and the worker lives."""

    async def broken(host: str, port: int) -> Sequence[str]:
        raise KeyError("surprise")

    sender = build(OPTIONS, broken)
    outcome = await sender.send(to("https://hook.example/"))
    await sender.close()

    assert (outcome.kind, outcome.detail) == (OutcomeKind.CLIENT_ERROR, "KeyError: 'surprise'")


async def test_connections_do_not_wait_to_send(build: BuildSender) -> None:
    """Small writes leave at once (TCP_NODELAY)."""
    parts = Parts(OPTIONS)
    async with RawServer(says(ok())) as server:
        transport, _ = await parts.dialer.open(
            Goal("127.0.0.1", server.port, tls=False), None, asyncio.Protocol
        )
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()
    await parts.close()


async def test_idle_connections_are_closed(build: BuildSender) -> None:
    """After ``keepalive_s``, without any further request."""
    sender = build(replace(OPTIONS, keepalive_s=0.2))
    async with RawServer(says(ok())) as server:
        assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK
        await eventually(lambda: server.open == 0)
    await sender.close()


async def test_a_machine_without_sockets_says_so(sender: WebhookSender) -> None:
    """Out of file descriptors is our own fault: ``client_error``, and it passes."""
    request = to("http://127.0.0.1:1/")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # the next descriptor that would be given out
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        starved = await sender.send(request)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (starved.kind, (await sender.send(request)).kind) == (OutcomeKind.LOCAL, OutcomeKind.REFUSED)
