"""The connections of the real sender are bounded in number and in age, and none of them leaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from consumer.core.model import OutcomeKind
from consumer.core.retry.outcomes import Signal, breaker_signal
from consumer.edges.http import WebhookSender
from tests.support.loopback import OPTIONS, SOON_S, BuildSender, to
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, open_files, says
from tests.support.servers.receiver import Receiver

pytestmark = pytest.mark.timeout(120)


async def test_cancelling_leaves_no_connection(sender: WebhookSender) -> None:
    """Fault 58: the server sees the end at once."""
    came, left = asyncio.Event(), asyncio.Event()

    async def talk(call: Call) -> None:
        await call.request()
        came.set()
        try:
            await call.gone()
        finally:
            left.set()

    async with RawServer(talk) as server:
        files = open_files()
        send = asyncio.create_task(sender.send(to(server.url())))
        await came.wait()
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        await asyncio.wait_for(left.wait(), 5)
        await eventually(lambda: open_files() <= files)


async def test_closing_ends_requests_in_flight(sender: WebhookSender) -> None:
    """Faults 47, 58: a close waits for no endpoint, even one that does not read; requests end as outcomes."""
    came = asyncio.Event()

    async def talk(call: Call) -> None:
        await call.reader.readuntil(b"\r\n\r\n")
        call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
        came.set()
        await asyncio.Event().wait()

    async with RawServer(talk) as server:
        send = asyncio.create_task(sender.send(to(server.url(), body=b"x" * 16_000_000)))
        await came.wait()
        await asyncio.wait_for(sender.close(), SOON_S)

        assert (await send).kind is OutcomeKind.RESET


async def test_two_thousand_requests_leak_nothing(build: BuildSender) -> None:
    """S0-9: connections end up in the pool or closed, and tasks end, after every outcome."""
    async with Receiver() as receiver:
        tasks, files = len(asyncio.all_tasks()), open_files()
        sender = build(OPTIONS)
        urls = [receiver.url(target) for target in ("/ok", "/status/503", "/flaky?share=0.5", "/hang")]
        gate = asyncio.Semaphore(50)

        async def one(number: int) -> OutcomeKind:
            async with gate:
                url = urls[3] if number % 50 == 0 else urls[number % 3]
                return (await sender.send(to(url, timeout_s=0.1 if number % 50 == 0 else 10))).kind

        kinds = await asyncio.gather(*(one(number) for number in range(2_000)))
        assert len(asyncio.all_tasks()) <= tasks + 1  # httpx2's sender has one that sweeps idle connections
        await sender.close()
        assert len(asyncio.all_tasks()) == tasks
        await eventually(lambda: open_files() <= files)

        hung = [kind for kind in kinds if kind in {OutcomeKind.TIMEOUT_TOTAL, OutcomeKind.TIMEOUT_CONNECT}]
        assert len(hung) == 40
        assert receiver.connections <= 50 + len(hung)


async def test_connections_to_a_host_are_bounded(build: BuildSender) -> None:
    """Never more than ``connections_per_host``; the others take their turn on them."""
    sender = build(replace(OPTIONS, connections_per_host=2))
    most = 0

    async def talk(call: Call) -> None:
        nonlocal most
        most = max(most, server.open)
        while True:
            await call.request()
            await asyncio.sleep(0.01)  # so that requests meet
            await call.say(ok())

    async with RawServer(talk) as server, RawServer(says(ok())) as other:
        sends = [sender.send(to(server.url(f"/{number % 3}"))) for number in range(12)]
        outcomes = await asyncio.gather(*sends, sender.send(to(other.url())))

        assert {outcome.kind for outcome in outcomes} == {OutcomeKind.OK}
        assert (most, server.connections, other.connections) == (2, 2, 1)
    await sender.close()


async def test_a_request_that_gets_no_turn_is_not_the_endpoints_fault(build: BuildSender) -> None:
    """Our own bound ends it, so the breaker learns nothing; later ones find a connection."""
    sender = build(replace(OPTIONS, connections_per_host=1))
    gate = asyncio.Event()

    async def talk(call: Call) -> None:
        while True:
            await call.request()
            await gate.wait()
            await call.say(ok())

    async with RawServer(talk) as server:
        first = asyncio.create_task(sender.send(to(server.url())))
        await eventually(lambda: len(server.requests) == 1)
        late = await sender.send(to(server.url(), timeout_s=0.2))
        gate.set()

        assert (late.kind, late.detail) == (
            OutcomeKind.CLIENT_ERROR,
            "every connection of connections_per_host was in use",
        )
        assert breaker_signal(late) is Signal.UNKNOWN
        assert [(await first).kind, (await sender.send(to(server.url()))).kind] == [
            OutcomeKind.OK,
            OutcomeKind.OK,
        ]
        assert server.connections == 1
    await sender.close()


@pytest.mark.parametrize(("age_s", "connections"), [(0.0, 4), (300.0, 1)])
async def test_a_connection_has_an_end_however_busy(
    build: BuildSender, age_s: float, connections: int
) -> None:
    """Fault 24: past ``connection_max_age_s`` it is not kept, so a name is judged anew sooner or later."""
    sender = build(replace(OPTIONS, connection_max_age_s=age_s))
    async with RawServer(says(ok())) as server:
        for _ in range(4):
            assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK

        assert server.connections == connections
    await sender.close()


async def test_a_deadline_leaves_no_cancellation_behind(build: BuildSender) -> None:
    """A fault of our own side that follows the cancellation does not hide it, so a later one still counts."""

    async def stubborn(host: str, port: int) -> Sequence[str]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyError("instead") from None
        return []

    sender = build(OPTIONS, stubborn)
    outcome = await sender.send(to("http://hook.example/", timeout_s=0.1))
    await sender.close()

    task = asyncio.current_task()
    assert task is not None
    assert (outcome.kind, task.cancelling()) == (OutcomeKind.CLIENT_ERROR, 0)
