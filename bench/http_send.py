"""Measure what the sender costs over a bare aiohttp ``session.post``: same receiver, same bytes, ABBA.

    python -m bench.http_send --requests 4000 --concurrency 20 200

Data flow: a receiver process <- legs of POSTs (bare, sender, sender, bare, ...) -> requests/s and CPU per
request of this process -> medians of the pair ratios, higher is better for the sender.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import NamedTuple, TypeAlias

import aiohttp
import uvloop

from consumer.core.egress import parse_rule
from consumer.core.model import Kind, SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender

BODY = b'{"type":"order.created","timestamp":"2026-01-01T00:00:00Z","data":{"text":"' + b"x" * 900 + b'"}}'
HEADERS = (
    ("content-type", "application/json"),
    ("user-agent", "leveret/0"),
    ("webhook-id", "msg_0123456789"),
    ("webhook-timestamp", "1767225600"),
    ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
)

Post: TypeAlias = Callable[[], Awaitable[None]]


class Leg(NamedTuple):
    """One measured run."""

    per_s: float  #: requests per second of wall time
    cpu_us: float  #: CPU microseconds of this process per request


async def run_leg(post: Post, requests: int, concurrency: int) -> Leg:
    """Send *requests* with *concurrency* workers."""
    left = iter(range(requests))

    async def work() -> None:
        for _ in left:
            await post()

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Leg(requests / wall, cpu / requests * 1e6)


async def compare(url: str, requests: int, concurrency: int, pairs: int) -> None:
    """Run ABBA pairs and print one line."""
    sender = WebhookSender("aiohttp", SenderOptions(egress=parse_rule(["127.0.0.0/8"])))
    signed = SignedRequest(url=url, headers=HEADERS, body=BODY, timeout_s=15.0)

    async def by_sender() -> None:
        outcome = await sender.send(signed)
        assert outcome.kind is Kind.OK, outcome

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=15)
    headers = dict(HEADERS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def bare() -> None:
            async with session.post(url, data=BODY, headers=headers) as response:
                await response.read()
                assert response.status == 200

        for post in (bare, by_sender):  # opens the connections
            await run_leg(post, concurrency * 3, concurrency)
        legs: dict[bool, list[Leg]] = {False: [], True: []}
        for pair in range(pairs):
            for ours in (False, True) if pair % 2 == 0 else (True, False):
                legs[ours].append(await run_leg(by_sender if ours else bare, requests, concurrency))
    await sender.close()
    ratio = median(b.per_s / a.per_s for a, b in zip(legs[False], legs[True], strict=True))
    cpu = median(a.cpu_us / b.cpu_us for a, b in zip(legs[False], legs[True], strict=True))
    bare_us, sender_us = (median(leg.cpu_us for leg in legs[ours]) for ours in (False, True))
    sys.stdout.write(
        f"concurrency {concurrency:4d}: sender/bare requests/s {ratio:.2f}, CPU bare/sender {cpu:.2f} "
        f"({bare_us:.0f} / {sender_us:.0f} us a request), n {requests} x {pairs} pairs\n"
    )


def main() -> None:
    """Start the receiver, compare at each concurrency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--pairs", type=int, default=6)
    options = parser.parse_args()
    command = [sys.executable, "-m", "tests.receiver", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        url = f"http://127.0.0.1:{receiver.stdout.readline().strip()}/ok"
        try:
            for concurrency in options.concurrency:
                uvloop.run(compare(url, options.requests, concurrency, options.pairs))
        finally:
            receiver.terminate()


if __name__ == "__main__":
    main()
