"""The real sender against servers that misbehave, on loopback and on both event loops."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from consumer.core.egress import parse_rule
from consumer.core.model import Kind, Outcome, SignedRequest
from consumer.edges.http import AiohttpSender, SenderOptions
from tests.raw_server import Call, RawServer, Talk, eventually, ok, open_files, says
from tests.receiver import Receiver

pytestmark = pytest.mark.timeout(30)

LOOPBACK = parse_rule(["127.0.0.0/8", "::1/128"])
OPTIONS = SenderOptions(max_response_bytes=1_000, egress=LOOPBACK)


@pytest_asyncio.fixture
async def sender() -> AsyncIterator[AiohttpSender]:
    """A sender that may go to loopback."""
    built = AiohttpSender(OPTIONS)
    yield built
    await built.close()


def to(url: str, *, timeout_s: float = 5.0, body: bytes = b"{}") -> SignedRequest:
    """Return a request with one header."""
    return SignedRequest(url=url, headers=[("webhook-id", "msg_1")], body=body, timeout_s=timeout_s)


async def outcome_of(sender: AiohttpSender, talk: Talk, *, timeout_s: float = 5.0) -> Outcome:
    """Send one request to a server that talks so."""
    async with RawServer(talk) as server:
        return await sender.send(to(server.url(), timeout_s=timeout_s))


# --- what goes out ---------------------------------------------------------------------------------


async def test_exactly_our_headers_go_out(sender: AiohttpSender) -> None:
    """Outside contract: the caller's headers in order and unchanged, beside them Host and Content-Length."""
    async with RawServer(says(ok())) as server:
        request = SignedRequest(
            url=server.url("/a%2Fb?q=1&r=%20"),
            headers=[("content-type", "application/json"), ("User-Agent", "leveret/1"), ("webhook-id", "m")],
            body='{"name":"Zoë"}'.encode(),
            timeout_s=5,
        )
        assert (await sender.send(request)).kind is Kind.OK

        assert server.requests == [
            b"POST /a%2Fb?q=1&r=%20 HTTP/1.1\r\n"
            b"Host: 127.0.0.1:" + str(server.port).encode() + b"\r\n"
            b"content-type: application/json\r\nUser-Agent: leveret/1\r\nwebhook-id: m\r\n"
            b"Content-Length: 15\r\n\r\n" + request.body
        ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\nWebhook-Id: b"),
        ("x\n", "a"),
        ("x", "a\0b"),
        ("x", "\ud800"),
        ("Host", "other"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
    ],
)
async def test_a_header_that_would_change_the_message_is_not_sent(
    sender: AiohttpSender, name: str, value: str
) -> None:
    """FAULTS 28: line breaks and the framing headers end as an outcome before anything is connected."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(
            SignedRequest(url=server.url(), headers=[(name, value)], body=b"", timeout_s=5)
        )

        assert outcome.kind is Kind.CLIENT_ERROR
        assert server.connections == 0


async def test_no_url_makes_the_sender_raise() -> None:
    """FAULTS 26: every bad URL that we wrote down ends as an outcome, and none is connected to."""
    cases = json.loads((Path(__file__).parent.parent / "data" / "urls.json").read_text())

    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    sender = AiohttpSender(SenderOptions(), nowhere)
    kinds = {(await sender.send(to(case["url"]))).kind for case in cases if not case["ok"]}
    await sender.close()

    assert kinds <= {Kind.CLIENT_ERROR, Kind.BLOCKED, Kind.DNS}


# --- what comes back -------------------------------------------------------------------------------


async def test_a_body_that_breaks_off_does_not_undo_a_success(sender: AiohttpSender) -> None:
    """FAULTS 34: the endpoint said 2xx; what was read of the body is kept, and the detail says why."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"

    outcome = await outcome_of(sender, says(answer, close=True))

    assert (outcome.kind, outcome.status) == (Kind.OK, 200)
    assert outcome.detail


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nabc\r\n", b"FFFFFFFFFFFFFFFFFF\r\nabc", b"-1\r\nabc", b"3\r\nabcdef\r\n"]
)
async def test_a_malformed_chunk_does_not_undo_a_success(sender: AiohttpSender, chunks: bytes) -> None:
    """FAULTS 49: chunk sizes that are no numbers, overflow or lie; the connection is not used again."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(0.05)  # a segment of its own, as from a server that works on its answer
        await call.say(chunks)
        await call.gone()

    async with RawServer(talk) as server:
        outcomes = [await sender.send(to(server.url())) for _ in range(2)]

        assert [(outcome.kind, outcome.status) for outcome in outcomes] == [(Kind.OK, 200)] * 2
        assert all(outcome.detail and outcome.duration_s < 2 for outcome in outcomes)
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"HTTP/1.1 204 None\r\n\r\nleftover",
    ],
    ids=["bad-chunk", "body-after-204"],
)
async def test_a_head_that_comes_in_one_segment_with_garbage_is_lost(
    sender: AiohttpSender, answer: bytes
) -> None:
    """FAULTS 49: the parser gives up the whole segment, so this is ``protocol`` and will be sent again."""
    outcome = await outcome_of(sender, says(answer))

    assert (outcome.kind, outcome.status) == (Kind.PROTOCOL, None)


async def test_an_endless_body_ends_with_the_deadline_and_the_status_decides(sender: AiohttpSender) -> None:
    """FAULTS 34, 45: a 503 whose body trickles is a 503."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await call.gone()

    outcome = await outcome_of(sender, talk, timeout_s=0.3)

    assert (outcome.kind, outcome.status, outcome.retry_after) == (Kind.HTTP_5XX, 503, "9")
    assert (outcome.body, bool(outcome.detail)) == (b"x", True)


async def test_a_flood_is_cut_off(sender: AiohttpSender) -> None:
    """FAULTS 34: a server that never stops sending is stopped by us, long before the deadline."""
    sent = 0

    async def talk(call: Call) -> None:
        nonlocal sent
        await call.request()
        await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        while True:
            await call.say(b"x" * 65_536)
            sent += 65_536

    async with RawServer(talk) as server:
        outcome = await sender.send(to(server.url()))
        await eventually(lambda: server.open == 0)

    assert (outcome.kind, len(outcome.body)) == (Kind.OK, 1_000)
    assert outcome.duration_s < 2
    assert sent < 50_000_000


async def test_a_compressed_body_is_not_unpacked(sender: AiohttpSender) -> None:
    """FAULTS 34: a 10 MB bomb in 10 kB costs what came over the wire."""
    bomb = gzip.compress(bytes(10_000_000))

    outcome = await outcome_of(sender, says(ok(body=bomb, headers=b"Content-Encoding: gzip\r\n")))

    assert (outcome.kind, outcome.body) == (Kind.OK, bomb[:1_000])


async def test_cookies_are_neither_kept_nor_sent(sender: AiohttpSender) -> None:
    """FAULTS 36: an endpoint cannot leave anything with us."""
    async with RawServer(says(ok(headers=b"Set-Cookie: a=b; Path=/\r\n"))) as server:
        for _ in range(2):
            await sender.send(to(server.url(host="127.0.0.1")))

        assert len(server.requests) == 2
        assert b"cookie" not in server.requests[1].lower()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"220 smtp.example ESMTP\r\n", Kind.PROTOCOL),
        (b"HTTP/1.1 abc OK\r\n\r\n", Kind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", Kind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", Kind.PROTOCOL),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Kind.PROTOCOL,
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", Kind.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", Kind.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n" + (b"X: " + b"y" * 1_000 + b"\r\n") * 10_000 + b"\r\n", Kind.TOO_LARGE),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Kind.PROTOCOL),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000, Kind.PROTOCOL),
    ],
    ids=[
        "smtp",
        "status",
        "negative-cl",
        "two-cl",
        "cl-te",
        "line",
        "10k-headers",
        "10MB",
        "101",
        "1xx-flood",
    ],
)
async def test_what_is_not_http_is_told_as_such(sender: AiohttpSender, answer: bytes, kind: Kind) -> None:
    """FAULTS 49: wrong framing is ``protocol``, an endless head ``too_large``; both end early."""
    async with RawServer(says(answer)) as server:
        outcome = await sender.send(to(server.url()))
        await eventually(lambda: server.open == 0)

    assert outcome.kind is kind
    assert outcome.duration_s < 3


async def test_interim_responses_are_looked_past(sender: AiohttpSender) -> None:
    """RFC 9110, 15.2: a 100 or 103 before the response is not the response."""
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok(
        status=b"201 Created"
    )

    assert (await outcome_of(sender, says(answer))).status == 201


async def test_text_from_an_endpoint_is_made_harmless(sender: AiohttpSender) -> None:
    """FAULTS 51: escapes, line separators and bad bytes are shown, not passed on; the length is bounded."""
    location = b"/\xe2\x80\xa8\xe2\x80\xae\xff\x80${jndi:x}" + b"z" * 500
    answer = ok(status=b"302 Found", headers=b"Location: " + location + b"\r\n")

    outcome = await outcome_of(sender, says(answer))

    assert outcome.location is not None
    assert outcome.location.startswith("/\\u2028\\u202e\\udcff\\udc80${jndi:x}z")
    assert len(outcome.location) == 200
    assert outcome.location.isprintable()


async def test_the_text_of_a_fault_is_made_harmless_too(sender: AiohttpSender) -> None:
    """FAULTS 51: what the parser quotes of a bad response is escaped and short."""
    outcome = await outcome_of(sender, says(b"\x1b]0;owned\x07\x1b[31m" + b"q" * 4_000 + b"\r\n\r\n"))

    assert outcome.kind in {Kind.PROTOCOL, Kind.TOO_LARGE}
    assert outcome.detail.isprintable()
    assert len(outcome.detail) <= 200


# --- connections -----------------------------------------------------------------------------------


async def test_connections_are_used_again(sender: AiohttpSender) -> None:
    """S0-9: a hundred requests in turn go over one connection."""
    async with RawServer(says(ok(body=b"fine"))) as server:
        for _ in range(100):
            assert (await sender.send(to(server.url()))).kind is Kind.OK

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
    sender: AiohttpSender, answer: bytes
) -> None:
    """FAULTS 49: one request's answer can never become the next one's."""
    async with RawServer(says(answer)) as server:
        outcomes = [await sender.send(to(server.url())) for _ in range(3)]

        assert [outcome.kind for outcome in outcomes] == [Kind.OK] * 3
        assert server.connections == 3


async def test_a_connection_that_the_server_closed_while_idle_costs_nothing(sender: AiohttpSender) -> None:
    """FAULTS 43: the request goes out on a new connection, once."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())

    async with RawServer(talk) as server:
        for _ in range(5):
            assert (await sender.send(to(server.url()))).kind is Kind.OK
            await eventually(lambda: server.open == 0)

        assert (len(server.requests), server.connections) == (5, 5)


async def test_a_close_that_the_loop_has_not_seen_yet_costs_nothing(sender: AiohttpSender) -> None:
    """FAULTS 43: the kernel is asked before the first byte, so a FIN that waits there is seen in time."""
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
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        first = await sender.send(to(url))
        told.set()
        closed.wait(10)  # blocks the loop on purpose: the FIN arrives, and the loop cannot look
        second = await sender.send(to(url))
        thread.join(10)

    assert (first.kind, second.kind) == (Kind.OK, Kind.OK)
    assert len(requests) == 2


async def test_a_request_that_was_written_is_never_sent_again(sender: AiohttpSender) -> None:
    """FAULTS 43: a kept connection that breaks after the request left is a ``reset``."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(ok())
        await call.request()

    async with RawServer(talk) as server:
        first, second = [await sender.send(to(server.url())) for _ in range(2)]

        assert (first.kind, second.kind) == (Kind.OK, Kind.RESET)
        assert (len(server.requests), server.connections) == (2, 1)


async def test_a_reset_after_accept_is_an_outcome(sender: AiohttpSender) -> None:
    """FAULTS 43: RST instead of a response."""

    async def talk(call: Call) -> None:
        await call.request()
        call.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )

    assert (await outcome_of(sender, talk)).kind is Kind.RESET


async def test_half_a_head_and_then_nothing_is_a_reset(sender: AiohttpSender) -> None:
    """FAULTS 43: a server that dies in the middle of its head has not answered."""
    outcome = await outcome_of(sender, says(b"HTTP/1.1 200 OK\r\nContent-", close=True))

    assert (outcome.kind, outcome.status) == (Kind.RESET, None)


async def test_a_connection_that_nobody_takes_ends_at_the_connect_bound() -> None:
    """FAULTS 43: SYNs that go unanswered cost the connect bound, not the whole deadline."""
    sender = AiohttpSender(SenderOptions(connect_timeout_s=0.3, egress=LOOPBACK))
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

    assert outcome.kind is Kind.TIMEOUT_CONNECT
    assert 0.2 < outcome.duration_s < 2


async def test_slow_headers_end_with_the_deadline(sender: AiohttpSender) -> None:
    """FAULTS 45: a byte now and then does not put the deadline off."""

    async def talk(call: Call) -> None:
        await call.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000:
            await call.say(bytes([byte]))
            await asyncio.sleep(0.02)

    outcome = await outcome_of(sender, talk, timeout_s=0.3)

    assert outcome.kind is Kind.TIMEOUT_TOTAL
    assert 0.25 < outcome.duration_s < 2


async def test_a_server_that_stops_reading_ends_with_the_deadline(sender: AiohttpSender) -> None:
    """FAULTS 47: a request that no buffer can take ends in time and leaves no connection behind."""

    async def talk(call: Call) -> None:
        call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
        await asyncio.Event().wait()

    async with RawServer(talk) as server:
        files = open_files()
        outcome = await sender.send(to(server.url(), timeout_s=0.5, body=b"x" * 16_000_000))
        await eventually(lambda: open_files() <= files + 1)  # the server's own end stays

    assert outcome.kind is Kind.TIMEOUT_TOTAL
    assert outcome.duration_s < 2


async def test_an_answer_before_the_whole_request_counts(sender: AiohttpSender) -> None:
    """FAULTS 47: a 413 that comes early decides, and the half-sent request's connection is not used again."""

    async def talk(call: Call) -> None:
        await call.reader.readuntil(b"\r\n\r\n")
        call.writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
        await call.say(ok(status=b"413 Too Large"))
        await asyncio.Event().wait()

    async with RawServer(talk) as server:
        outcomes = [await sender.send(to(server.url(), body=b"x" * 16_000_000)) for _ in range(2)]

        assert [outcome.status for outcome in outcomes] == [413, 413]
        assert server.connections == 2


async def test_cancelling_leaves_no_connection(sender: AiohttpSender) -> None:
    """FAULTS 58: the server sees the end at once."""
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


async def test_closing_ends_what_is_in_flight(sender: AiohttpSender) -> None:
    """FAULTS 58: a close does not wait for an endpoint, and the request ends as an outcome."""
    came = asyncio.Event()

    async def talk(call: Call) -> None:
        await call.request()
        came.set()
        await call.gone()

    async with RawServer(talk) as server:
        send = asyncio.create_task(sender.send(to(server.url())))
        await came.wait()
        await asyncio.wait_for(sender.close(), 2)

        assert (await send).kind is Kind.RESET


async def test_two_thousand_requests_leak_nothing() -> None:
    """S0-9: connections end up in the pool or closed, tasks end, whatever the outcomes were."""
    async with Receiver() as receiver:
        tasks, files = len(asyncio.all_tasks()), open_files()
        sender = AiohttpSender(OPTIONS)
        urls = [receiver.url(target) for target in ("/ok", "/status/503", "/flaky?share=0.5", "/hang")]
        gate = asyncio.Semaphore(50)

        async def one(number: int) -> Kind:
            async with gate:
                url = urls[3] if number % 50 == 0 else urls[number % 3]
                return (await sender.send(to(url, timeout_s=0.1 if number % 50 == 0 else 10))).kind

        kinds = await asyncio.gather(*(one(number) for number in range(2_000)))
        assert len(asyncio.all_tasks()) == tasks
        await sender.close()
        await eventually(lambda: open_files() <= files)

        assert kinds.count(Kind.TIMEOUT_TOTAL) == 40
        assert receiver.connections <= 50 + 40


# --- where it may go -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "10.0.0.1", "[fd00:ec2::254]", "[::ffff:10.0.0.1]", "127.1"]
)
async def test_a_forbidden_literal_is_blocked(sender: AiohttpSender, host: str) -> None:
    """FAULTS 20, 21, 22: no connection is tried."""
    assert (await sender.send(to(f"https://{host}/"))).kind is Kind.BLOCKED


async def test_loopback_is_blocked_unless_allowed() -> None:
    """FAULTS 21: judged on the address that is dialled; the server sees no connection."""
    sender = AiohttpSender(SenderOptions())
    async with RawServer(says(ok())) as server:
        plain = await sender.send(to(server.url()))
        secure = await sender.send(to(server.url().replace("http:", "https:")))

        assert (plain.kind, secure.kind) == (Kind.BLOCKED, Kind.BLOCKED)
        assert server.connections == 0
    await sender.close()


async def test_any_forbidden_address_blocks_a_name() -> None:
    """FAULTS 23: one good address beside a bad one does not help."""

    async def both(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.1"]

    sender = AiohttpSender(OPTIONS, both)
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="hook.example")))

        assert (outcome.kind, outcome.detail) == (Kind.BLOCKED, "address 10.0.0.1 is not public")
        assert server.connections == 0
    await sender.close()


async def test_a_name_that_moves_is_judged_again() -> None:
    """FAULTS 24: the first answer is allowed, the second is not: no connection to it."""
    answers = [["127.0.0.1"], ["192.168.1.1"]]

    async def moving(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    sender = AiohttpSender(SenderOptions(egress=LOOPBACK, resolve_cache_s=0), moving)
    async with RawServer(says(ok(headers=b"Connection: close\r\n"))) as server:
        outcomes = [await sender.send(to(server.url(host="hook.example"))) for _ in range(2)]

    assert [outcome.kind for outcome in outcomes] == [Kind.OK, Kind.BLOCKED]
    await sender.close()


# --- names -----------------------------------------------------------------------------------------


async def test_the_system_finds_names_in_its_own_threads(sender: AiohttpSender) -> None:
    """FAULTS 42: ``localhost`` works without an injected resolver, and not on the loop's default threads."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url(host="localhost")))

        assert outcome.kind is Kind.OK
    assert any(thread.name.startswith("leveret-lookup") for thread in threading.enumerate())


@pytest.mark.parametrize(
    "fault",
    [
        socket.gaierror(socket.EAI_NONAME, "no such name"),
        socket.gaierror(socket.EAI_AGAIN, "server failed"),
        None,
    ],
    ids=["nxdomain", "servfail", "empty"],
)
async def test_a_name_that_is_not_found_is_dns(fault: OSError | None) -> None:
    """FAULTS 42: NXDOMAIN, SERVFAIL, and an answer without addresses."""

    async def failing(host: str, port: int) -> Sequence[str]:
        if fault is not None:
            raise fault
        return []

    sender = AiohttpSender(OPTIONS, failing)
    outcome = await sender.send(to("https://name.invalid/"))
    await sender.close()

    assert (outcome.kind, outcome.status) == (Kind.DNS, None)


async def test_a_name_server_that_is_silent_is_dns_in_its_own_time() -> None:
    """FAULTS 42: the look-up has a bound of its own, below the connect bound."""

    async def silent(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    sender = AiohttpSender(SenderOptions(egress=LOOPBACK, resolve_timeout_s=0.2), silent)
    outcome = await sender.send(to("https://hook.example/", timeout_s=10))
    await sender.close()

    assert outcome.kind is Kind.DNS
    assert outcome.duration_s < 2


async def test_a_name_with_two_hundred_addresses_is_bounded() -> None:
    """FAULTS 42: dead addresses are tried within the connect bound, and no longer."""

    async def many(host: str, port: int) -> Sequence[str]:
        return [f"127.0.0.{number}" for number in range(1, 201)]

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    sender = AiohttpSender(SenderOptions(egress=LOOPBACK, connect_timeout_s=1), many)
    outcome = await sender.send(to(f"http://hook.example:{port}/"))
    await sender.close()

    assert outcome.kind in {Kind.REFUSED, Kind.TIMEOUT_CONNECT}
    assert outcome.duration_s < 2


async def test_a_fault_that_nobody_foresaw_is_an_outcome() -> None:
    """STYLE 7: it names its type, and the worker lives."""

    async def broken(host: str, port: int) -> Sequence[str]:
        raise KeyError("surprise")

    sender = AiohttpSender(OPTIONS, broken)
    outcome = await sender.send(to("https://hook.example/"))
    await sender.close()

    assert (outcome.kind, outcome.detail) == (Kind.CLIENT_ERROR, "KeyError: 'surprise'")
