"""The test receiver behaves as its paths name it, and its log survives a kill."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import Outcome, OutcomeKind, SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender
from tests.support.servers.raw_server import eventually
from tests.support.servers.receiver import Receiver
from tests.support.servers.requests import flaky_fails

pytestmark = pytest.mark.timeout(30)


@pytest_asyncio.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    """A sender that may go to loopback."""
    built = WebhookSender("aiohttp", SenderOptions(egress=parse_rule(["127.0.0.0/8"])))
    yield built
    await built.close()


def to(url: str, webhook_id: str = "msg_1", *, body: bytes = b"{}", timeout_s: float = 5.0) -> SignedRequest:
    """Return a request with the headers that the receiver logs."""
    headers = [("webhook-id", webhook_id), ("webhook-timestamp", "17"), ("webhook-signature", "v1,x")]
    return SignedRequest(url=url, headers=headers, body=body, timeout_s=timeout_s)


async def statuses(
    sender: WebhookSender, url: str, count: int, webhook_id: str = "msg_1"
) -> list[int | None]:
    """Return the statuses of *count* requests in turn."""
    return [(await sender.send(to(url, webhook_id))).status for _ in range(count)]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_each_path_behaves_as_it_says(sender: WebhookSender) -> None:
    """Counts are per target; segments behind the first only tell endpoints apart."""
    async with Receiver() as receiver:
        assert await statuses(sender, receiver.url("/ok/a"), 2) == [200, 200]
        assert await statuses(sender, receiver.url("/status/418"), 1) == [418]
        assert await statuses(sender, receiver.url("/gone?after=2"), 4) == [200, 200, 410, 410]
        assert await statuses(sender, receiver.url("/gone/b?after=1"), 2) == [200, 410]
        assert await statuses(sender, receiver.url("/probes?quiet=60"), 3) == [200, 503, 503]
        assert await statuses(sender, receiver.url("/retry-after?s=7&status=429"), 2) == [429, 200]
        assert await statuses(sender, receiver.url("/redirect?to=/ok/a"), 1) == [302]
        assert await statuses(sender, receiver.url("/nonsense"), 1) == [404]
        assert receiver.answered("/gone?after=2") == {200: 2, 410: 2}
        assert receiver.connections == 1


async def test_retry_after_is_sent_with_the_status(sender: WebhookSender) -> None:
    """Fault 39: the first answer per webhook-id carries the wait."""
    async with Receiver() as receiver:
        outcome = await sender.send(to(receiver.url("/retry-after?s=7")))

        assert (outcome.status, outcome.retry_after) == (503, "7")


async def test_slow_answers_late(sender: WebhookSender) -> None:
    """S0-9: the answer takes as long as the path says."""
    async with Receiver() as receiver:
        outcome = await sender.send(to(receiver.url("/slow?s=0.2")))

        assert (outcome.status, outcome.duration_s >= 0.2) == (200, True)


async def test_flaky_fails_as_computed_beforehand(sender: WebhookSender) -> None:
    """Proof ledger: the number of attempts that each id needs is known before it is sent."""
    async with Receiver() as receiver:
        url = receiver.url("/flaky?share=0.5")
        for number in range(20):
            expected = [503 if flaky_fails(f"msg_{number}", attempt, 0.5) else 200 for attempt in range(1, 5)]
            assert await statuses(sender, url, 4, f"msg_{number}") == expected


def test_flaky_fails_the_share_that_it_is_told() -> None:
    """Proof ledger: 0 never, 1 always, 0.3 about three in ten, independent of the attempt before."""
    fails = [flaky_fails(f"msg_{number}", 1 + number % 3, 0.3) for number in range(10_000)]

    assert 0.28 < sum(fails) / len(fails) < 0.32
    assert not any(flaky_fails(f"msg_{number}", 1, 0.0) for number in range(100))
    assert all(flaky_fails(f"msg_{number}", 1, 1.0) for number in range(100))


async def test_hold_answers_all_at_once_and_then_succeeds(sender: WebhookSender) -> None:
    """Proof retry: the first n are kept until the n-th is there; what comes later is fine."""
    async with Receiver() as receiver:
        url = receiver.url("/hold?n=20&status=503&retry_after=7")
        sends = [asyncio.create_task(sender.send(to(url, f"msg_{number}"))) for number in range(19)]
        await receiver.arrived(19)
        assert not any(send.done() for send in sends)
        sends.append(asyncio.create_task(sender.send(to(url, "msg_19"))))
        outcomes: list[Outcome] = await asyncio.gather(*sends)

        assert [(outcome.status, outcome.retry_after) for outcome in outcomes] == [(503, "7")] * 20
        assert await statuses(sender, url, 1) == [200]
        ends = [request.end for request in receiver.requests[:20]]
        assert max(ends) - min(ends) < 0.5


async def test_a_request_without_an_answer_is_logged_when_it_ends(
    sender: WebhookSender, tmp_path: Path
) -> None:
    """Fault 57: a sender that dies in a request leaves its line, with status 0."""
    log = tmp_path / "log"
    async with Receiver(log=log) as receiver:
        outcome = await sender.send(to(receiver.url("/hang"), timeout_s=0.1))
        assert outcome.kind is OutcomeKind.TIMEOUT_TOTAL
        await eventually(lambda: receiver.counts["/hang", 0] == 1)

        assert [(line["target"], line["status"]) for line in lines(log)] == [("/hang", 0)]


async def test_a_large_body_in_many_pieces_is_taken_whole(sender: WebhookSender, tmp_path: Path) -> None:
    """Fault 47: size and hash are of all of it; the start is when the head was there."""
    body, log = bytes(range(256)) * 8_000, tmp_path / "log"
    async with Receiver(log=log, bodies=True) as receiver:
        await sender.send(to(receiver.url("/ok"), body=body))

        assert receiver.requests[0].body == body
        line = lines(log)[0]
        assert (line["size"], line["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
        assert line["start"] <= line["end"]


async def test_two_requests_in_one_segment_are_answered_in_turn() -> None:
    """RFC 9112, 9.3.2: pipelined requests get their answers in order, a slow one first."""
    async with Receiver() as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        writer.write(b"POST /slow?s=0.05&status=201 HTTP/1.1\r\n\r\nPOST /status/418 HTTP/1.1\r\n\r\n")
        heads = [(await reader.readuntil(b"\r\n\r\n"))[9:12] for _ in range(2)]
        writer.close()
        await writer.wait_closed()

    assert heads == [b"201", b"418"]


async def test_a_child_process_logs_each_answer_before_it_gives_it(
    sender: WebhookSender, tmp_path: Path
) -> None:
    """Proofs: what the sender has seen is in the log even if the receiver is killed the moment after."""
    log = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "tests.support.servers.receiver",
        "--port",
        "0",
        "--log",
        str(log),
        "--bodies",
    ]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    url = f"http://127.0.0.1:{int(await child.stdout.readline())}"
    before = time.time()
    assert await statuses(sender, f"{url}/ok", 3) == [200] * 3
    counts = json.loads((await sender.send(to(f"{url}/-/counts"))).body)
    child.kill()
    await child.communicate()

    assert counts == {"arrived": 3, "connections": 1, "answers": {"/ok": {"200": 3}}}
    assert [(line["id"], line["attempt"], line["status"]) for line in lines(log)] == [
        ("msg_1", 1, 200),
        ("msg_1", 2, 200),
        ("msg_1", 3, 200),
    ]
    first = lines(log)[0]
    assert (first["timestamp"], first["signature"], first["body"]) == ("17", "v1,x", "e30=")
    assert before <= first["start"] <= first["end"] <= time.time()


def test_a_child_process_ends_on_sigterm() -> None:
    """Proofs: it leaves no process behind, and exits 0."""
    command = [sys.executable, "-m", "tests.support.servers.receiver"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
