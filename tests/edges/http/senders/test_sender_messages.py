"""The bytes of the real sender, and its reading of the bytes that come back, on both event loops."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Sequence
from dataclasses import replace

import pytest

from consumer.core.model import Control, OutcomeKind, SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender
from tests.support.data import DATA
from tests.support.loopback import OPTIONS, SOON_S, BuildSender, outcome_of, to
from tests.support.servers.raw_server import Call, RawServer, eventually, ok, says

pytestmark = pytest.mark.timeout(120)


async def test_exactly_our_headers_go_out(sender: WebhookSender) -> None:
    """Outside contract: the caller's headers in order and unchanged, beside them Host and Content-Length."""
    async with RawServer(says(ok())) as server:
        request = SignedRequest(
            url=server.url("/a%2Fb?q=1&r=%20"),
            headers=[("content-type", "application/json"), ("User-Agent", "leveret/1"), ("webhook-id", "m")],
            body='{"name":"Zoë"}'.encode(),
            timeout_s=5,
        )
        assert (await sender.send(request)).kind is OutcomeKind.OK

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
    sender: WebhookSender, name: str, value: str
) -> None:
    """Fault 28: line breaks and the framing headers end as an outcome before anything is connected."""
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(
            SignedRequest(url=server.url(), headers=[(name, value)], body=b"", timeout_s=5)
        )

        assert outcome.kind is OutcomeKind.CLIENT_ERROR
        assert server.connections == 0


async def test_no_url_makes_the_sender_raise(build: BuildSender) -> None:
    """Fault 26: every bad URL that we wrote down ends as an outcome, and none is connected to."""
    cases = json.loads((DATA / "urls.json").read_text())

    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    sender = build(SenderOptions(), nowhere)
    kinds = {(await sender.send(to(case["url"]))).kind for case in cases if not case["ok"]}
    await sender.close()

    assert kinds <= {OutcomeKind.CLIENT_ERROR, OutcomeKind.BLOCKED, OutcomeKind.DNS}


async def test_a_body_that_breaks_off_does_not_undo_a_success(sender: WebhookSender) -> None:
    """Fault 34: the endpoint answered 2xx; the received part of the body is kept, and the detail says why."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"

    outcome = await outcome_of(sender, says(answer, close=True))

    assert (outcome.kind, outcome.status) == (OutcomeKind.OK, 200)
    assert outcome.detail


@pytest.mark.parametrize(
    "chunks", [b"zz\r\nabc\r\n", b"FFFFFFFFFFFFFFFFFF\r\nabc", b"-1\r\nabc", b"3\r\nabcdef\r\n"]
)
async def test_a_malformed_chunk_does_not_undo_a_success(sender: WebhookSender, chunks: bytes) -> None:
    """Fault 49: chunk sizes that are not numbers, overflow or are wrong; the connection is not used again."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(0.05)  # a segment of its own, as from a server that works on its answer
        await call.say(chunks)
        await call.gone()

    async with RawServer(talk) as server:
        outcomes = [await sender.send(to(server.url(), timeout_s=0.5)) for _ in range(2)]

        assert [(outcome.kind, outcome.status) for outcome in outcomes] == [(OutcomeKind.OK, 200)] * 2
        assert all(outcome.detail and outcome.duration_s < SOON_S for outcome in outcomes)
        assert server.connections == 2


async def test_an_endless_body_ends_with_the_deadline_and_the_status_decides(sender: WebhookSender) -> None:
    """Faults 34, 45: a 503 whose body trickles is a 503."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await call.gone()

    outcome = await outcome_of(sender, talk, timeout_s=0.3)

    assert (outcome.kind, outcome.status, outcome.retry_after) == (OutcomeKind.HTTP_5XX, 503, "9")
    assert (outcome.body, bool(outcome.detail)) == (b"x", True)


async def test_a_flood_is_cut_off(sender: WebhookSender) -> None:
    """Fault 34: a server that never stops sending is stopped by us, long before the deadline."""
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

    assert (outcome.kind, len(outcome.body)) == (OutcomeKind.OK, 1_000)
    assert outcome.duration_s < SOON_S
    assert sent < 50_000_000


async def test_a_compressed_body_is_not_unpacked(sender: WebhookSender) -> None:
    """Fault 34: a 10 MB bomb in 10 kB costs only its bytes on the wire."""
    bomb = gzip.compress(bytes(10_000_000))

    outcome = await outcome_of(sender, says(ok(body=bomb, headers=b"Content-Encoding: gzip\r\n")))

    assert (outcome.kind, outcome.body) == (OutcomeKind.OK, bomb[:1_000])


async def test_cookies_are_neither_kept_nor_sent(sender: WebhookSender) -> None:
    """Fault 36: an endpoint cannot leave anything with us."""
    async with RawServer(says(ok(headers=b"Set-Cookie: a=b; Path=/\r\n"))) as server:
        for _ in range(2):
            await sender.send(to(server.url(host="127.0.0.1")))

        assert len(server.requests) == 2
        assert b"cookie" not in server.requests[1].lower()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"220 smtp.example ESMTP\r\n", OutcomeKind.PROTOCOL),
        (b"HTTP/1.1 abc OK\r\n\r\n", OutcomeKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", OutcomeKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", OutcomeKind.PROTOCOL),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            OutcomeKind.PROTOCOL,
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", OutcomeKind.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", OutcomeKind.TOO_LARGE),
        (
            b"HTTP/1.1 200 OK\r\n" + (b"X: " + b"y" * 1_000 + b"\r\n") * 10_000 + b"\r\n",
            OutcomeKind.TOO_LARGE,
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            OutcomeKind.PROTOCOL,
        ),
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
    ],
)
async def test_an_answer_other_than_http_is_reported_as_such(
    sender: WebhookSender, answer: bytes, kind: OutcomeKind
) -> None:
    """Fault 49: wrong framing is ``protocol``, an endless head ``too_large``; both end early."""
    async with RawServer(says(answer)) as server:
        outcome = await sender.send(to(server.url()))
        await eventually(lambda: server.open == 0)

    assert outcome.kind is kind
    assert outcome.duration_s < SOON_S


async def test_interim_responses_without_end(sender: WebhookSender) -> None:
    """Fault 49: 1xx after 1xx is not an answer; both senders give up long before the deadline."""
    outcome = await outcome_of(sender, says(b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000))

    assert (outcome.kind, outcome.detail) == (OutcomeKind.PROTOCOL, "1xx responses without end")
    assert outcome.duration_s < SOON_S


async def test_interim_responses_are_looked_past(sender: WebhookSender) -> None:
    """RFC 9110, 15.2: a 100 or 103 before the response is not the response."""
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok(
        status=b"201 Created"
    )

    assert (await outcome_of(sender, says(answer))).status == 201


async def test_text_from_an_endpoint_is_made_harmless(sender: WebhookSender) -> None:
    """Fault 51: escapes, line separators and bad bytes are shown, not passed on; the length is bounded."""
    location = b"/\xe2\x80\xa8\xe2\x80\xae\xff\x80${jndi:x}" + b"z" * 500
    answer = ok(status=b"302 Found", headers=b"Location: " + location + b"\r\n")

    outcome = await outcome_of(sender, says(answer))

    assert outcome.location is not None
    assert outcome.location.startswith("/\\u2028\\u202e\\udcff\\udc80${jndi:x}z")
    assert len(outcome.location) == 200
    assert outcome.location.isprintable()


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (b"https://u:pw@moved.example/x?token=secret#part", "https://moved.example/x"),
        (b"/login?token=secret", "/login"),
        (b"//u:pw@moved.example/x", "//moved.example/x"),
    ],
)
async def test_where_a_redirect_leads_is_shown_without_its_secrets(
    sender: WebhookSender, location: bytes, shown: str
) -> None:
    """Fault 36: query, fragment and userinfo of a Location are not recorded: they may hold a token."""
    outcome = await outcome_of(
        sender, says(ok(status=b"307 Moved", headers=b"Location: " + location + b"\r\n"))
    )

    assert (outcome.kind, outcome.location) == (OutcomeKind.HTTP_3XX, shown)


async def test_the_text_of_a_fault_is_made_harmless_too(sender: WebhookSender) -> None:
    """Fault 51: the parser's quotes from a bad response are escaped and short."""
    outcome = await outcome_of(sender, says(b"\x1b]0;owned\x07\x1b[31m" + b"q" * 4_000 + b"\r\n\r\n"))

    assert outcome.kind in {OutcomeKind.PROTOCOL, OutcomeKind.TOO_LARGE}
    assert outcome.detail.isprintable()
    assert len(outcome.detail) <= 200


@pytest.mark.parametrize(
    ("value", "control"),
    [
        (b"disable", Control.DISABLE),
        (b"Abort-Message", Control.ABORT_MESSAGE),
        (b"  disable ", Control.DISABLE),
        (b"disable, abort-message", None),
        (b"disable\r\nwebhook-delivery: disable", None),
        (b"enable", None),
        (b"", None),
    ],
)
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
async def test_requests_of_an_endpoint_are_read_where_we_obey(
    build: BuildSender, value: bytes, control: Control | None, status: bytes
) -> None:
    """Fault 52: ``webhook-delivery`` is one of two words, once; without the setting it is not looked at."""
    answer = ok(status=status, headers=b"Webhook-Delivery: " + value + b"\r\n")
    async with RawServer(says(answer)) as server:
        for obey in (True, False):
            sender = build(replace(OPTIONS, obey_control=obey))
            outcome = await sender.send(to(server.url()))
            await sender.close()

            assert (outcome.status, outcome.control) == (int(status[:3]), control if obey else None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"text/html; charset=utf-8", "text/html; charset=utf-8"),
        (b"text/\x1b[31m", "text/\\x1b[31m"),
        (b"", ""),
    ],
)
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
async def test_the_content_type_of_an_answer_is_kept_where_the_history_asks_for_it(
    build: BuildSender, value: bytes, shown: str, status: bytes
) -> None:
    """It is escaped; without the setting it is not looked at."""
    answer = ok(body=b"thanks", status=status, headers=b"Content-Type: " + value + b"\r\n")
    async with RawServer(says(answer)) as server:
        for keep in (True, False):
            sender = build(replace(OPTIONS, keep_type=keep))
            outcome = await sender.send(to(server.url()))
            await sender.close()

            assert outcome.body
            assert (outcome.status, outcome.content_type) == (int(status[:3]), shown if keep else "")


async def test_two_retry_after_headers_are_both_handed_on(sender: WebhookSender) -> None:
    """Fault 39: joined by a comma, so that the longest counts."""
    answer = ok(status=b"503 Busy", headers=b"Retry-After: 5\r\nX: y\r\nretry-after: 120\r\n")

    assert (await outcome_of(sender, says(answer))).retry_after == "5, 120"
