"""How the real sender keeps, loses and gives back connections, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from dataclasses import replace

import pytest

from consumer.core.model import OutcomeKind
from consumer.edges.http import SenderOptions, WebhookSender
from tests.support.loopback import LOOPBACK, OPTIONS, SOON_S, BuildSender, outcome_of, to
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, open_files, says

pytestmark = pytest.mark.timeout(120)


async def test_connections_are_used_again(sender: WebhookSender) -> None:
    """S0-9: a hundred requests in turn go over one connection."""
    async with RawServer(says(ok(body=b"fine"))) as server:
        for _ in range(100):
            assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK

        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        ok(headers=b"Connection: close\r\n"),
        ok() + ok(status=b"500 Unasked"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["close", "two-answers", "http-1.0"],
)
async def test_a_connection_with_something_left_over_is_not_used_again(
    sender: WebhookSender, answer: bytes
) -> None:
    """Fault 49: one request's answer can never become the next one's."""
    async with RawServer(says(answer)) as server:
        outcomes = [await sender.send(to(server.url())) for _ in range(3)]

        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.OK] * 3
        assert server.connections == 3


async def test_an_answer_out_of_turn_is_not_taken_for_the_next_one(sender: WebhookSender) -> None:
    """Fault 49: a response that comes while the connection is idle costs that connection only."""
    answered, spoke = asyncio.Event(), asyncio.Event()

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())
        await answered.wait()
        await call.say(ok(status=b"500 Unasked"))
        spoke.set()
        await call.gone()

    async with RawServer(talk) as server:
        first = await sender.send(to(server.url()))
        answered.set()
        await spoke.wait()
        for _ in range(5):  # loopback has it already; the loop takes it in its next rounds
            await asyncio.sleep(0)
        second = await sender.send(to(server.url()))

        assert (first.status, second.status, server.connections) == (200, 200, 2)


async def test_a_connection_that_the_server_closed_while_idle_costs_nothing(sender: WebhookSender) -> None:
    """Fault 43: the request goes out on a new connection, once."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())

    async with RawServer(talk) as server:
        for _ in range(5):
            assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK
            await eventually(lambda: server.open == 0)

        assert (len(server.requests), server.connections) == (5, 5)


async def test_a_close_that_the_loop_has_not_seen_yet_costs_nothing(sender: WebhookSender) -> None:
    """Fault 43: the kernel is asked before the first byte, so a FIN that waits there is seen in time."""
    told, closed = threading.Event(), threading.Event()
    requests: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        for number in range(2):
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(65_536))
                connection.sendall(ok())
                if number == 0:
                    told.wait(10)
            closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        first = await sender.send(to(url))
        told.set()
        closed.wait(10)  # blocks the loop on purpose: the FIN arrives, and the loop cannot look
        second = await sender.send(to(url))
        thread.join(10)

    assert (first.kind, second.kind) == (OutcomeKind.OK, OutcomeKind.OK)
    assert len(requests) == 2


async def test_a_request_that_was_written_is_never_sent_again(sender: WebhookSender) -> None:
    """Fault 43: a kept connection that breaks after the request left is a ``reset``."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())
        await call.request()

    async with RawServer(talk) as server:
        first, second = [await sender.send(to(server.url())) for _ in range(2)]

        assert (first.kind, second.kind) == (OutcomeKind.OK, OutcomeKind.RESET)
        assert (len(server.requests), server.connections) == (2, 1)


async def test_a_reset_after_accept_is_an_outcome(sender: WebhookSender) -> None:
    """Fault 43: RST instead of a response."""

    async def talk(call: Call) -> None:
        await call.request()
        call.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )

    assert (await outcome_of(sender, talk)).kind is OutcomeKind.RESET


async def test_half_a_head_and_then_nothing_is_a_reset(sender: WebhookSender) -> None:
    """Fault 43: a server that dies in the middle of its head has not answered."""
    outcome = await outcome_of(sender, says(b"HTTP/1.1 200 OK\r\nContent-", close=True))

    assert (outcome.kind, outcome.status) == (OutcomeKind.RESET, None)


async def test_a_connection_that_nobody_takes_ends_at_the_connect_bound(build: BuildSender) -> None:
    """Fault 43: SYNs that go unanswered cost the connect bound, not the whole deadline."""
    sender = build(SenderOptions(connect_timeout_s=0.3, egress=LOOPBACK))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(4):  # more than a backlog of 0 holds
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        outcome = await sender.send(to(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_s=10))
        for filler in fillers:
            filler.close()
    await sender.close()

    assert outcome.kind is OutcomeKind.TIMEOUT_CONNECT
    assert 0.2 < outcome.duration_s < SOON_S


async def test_slow_headers_end_with_the_deadline(sender: WebhookSender) -> None:
    """Fault 45: a byte now and then does not put the deadline off."""

    async def talk(call: Call) -> None:
        await call.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000:
            await call.say(bytes([byte]))
            await asyncio.sleep(0.02)

    outcome = await outcome_of(sender, talk, timeout_s=0.3)

    assert outcome.kind is OutcomeKind.TIMEOUT_TOTAL
    assert 0.25 < outcome.duration_s < SOON_S


async def test_a_server_that_stops_reading_ends_with_the_deadline(sender: WebhookSender) -> None:
    """Fault 47: a request that no buffer can take ends in time and leaves no connection behind."""

    async def talk(call: Call) -> None:
        call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
        await asyncio.Event().wait()

    async with RawServer(talk) as server:
        files = open_files()
        outcome = await sender.send(to(server.url(), timeout_s=0.5, body=b"x" * 16_000_000))
        await eventually(lambda: open_files() <= files + 1)  # the server's own end stays

    assert outcome.kind is OutcomeKind.TIMEOUT_TOTAL
    assert outcome.duration_s < SOON_S


async def test_an_answer_before_the_whole_request_counts(sender: WebhookSender) -> None:
    """Fault 47: a 413 that comes early decides, and the half-sent request's connection is not used again."""

    async def talk(call: Call) -> None:
        await call.reader.readuntil(b"\r\n\r\n")
        call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
        await call.say(ok(status=b"413 Too Large"))
        await asyncio.Event().wait()

    async with RawServer(talk) as server:
        outcomes = [await sender.send(to(server.url(), body=b"x" * 16_000_000)) for _ in range(2)]

        assert [outcome.status for outcome in outcomes] == [413, 413]
        assert server.connections == 2


@pytest.mark.parametrize("later_s", [0.0, 0.02])
async def test_a_body_behind_a_204_never_reaches_the_next_request(
    sender: WebhookSender, later_s: float
) -> None:
    """Fault 91: not even that of a server which writes it after the next request could have left."""

    async def talk(call: Call) -> None:
        while True:
            await call.request()
            await call.say(b"HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n")
            await asyncio.sleep(later_s)
            await call.say(b"accepted")

    async with RawServer(talk) as server:
        outcomes = [await sender.send(to(server.url())) for _ in range(20)]

        assert [(outcome.kind, outcome.status) for outcome in outcomes] == [(OutcomeKind.OK, 204)] * 20
        assert len(server.requests) == 20


async def test_a_connection_is_kept_once_a_204_was_followed_by_nothing(sender: WebhookSender) -> None:
    """Fault 91, S0-9: an endpoint that keeps to HTTP is not asked for more than a few connections."""
    async with RawServer(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK
        await asyncio.sleep(0.3)
        for _ in range(20):
            assert (await sender.send(to(server.url()))).kind is OutcomeKind.OK

        assert server.connections == 1


async def test_one_connection_and_204s(build: BuildSender) -> None:
    """Fault 91: with a bound of one connection every request gets it in the end."""
    sender = build(replace(OPTIONS, connections_per_host=1))
    async with RawServer(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        outcomes = await asyncio.gather(*(sender.send(to(server.url())) for _ in range(5)))
    await sender.close()

    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.OK}
    assert max(outcome.duration_s for outcome in outcomes) < SOON_S


async def test_an_answer_out_of_turn_that_the_loop_has_not_seen_is_not_taken(sender: WebhookSender) -> None:
    """Fault 91: it waits in the kernel when the next request is due; that one goes elsewhere."""
    told, spoke = threading.Event(), threading.Event()
    requests: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        first, _ = listener.accept()
        requests.append(first.recv(65_536))
        first.sendall(ok(body=b"first"))
        told.wait(10)
        first.sendall(ok(body=b"unasked"))
        spoke.set()
        second, _ = listener.accept()
        requests.append(second.recv(65_536))
        second.sendall(ok(body=b"second"))
        first.close()
        second.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        first = await sender.send(to(url))
        told.set()
        spoke.wait(10)  # blocks the loop on purpose: the bytes arrive, and the loop cannot look
        second = await sender.send(to(url))
        thread.join(10)

    assert (first.body, second.body, len(requests)) == (b"first", b"second", 2)
