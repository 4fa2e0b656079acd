"""Compare HTTP clients on the same webhook: both senders, a bare aiohttp session, httpx2's own client.

    python -m bench.http_clients --requests 3000 --pairs 3

Data flow: nginx (a process of its own) <- legs of signed POSTs, the contenders in turn, there and back
-> requests/s and CPU per request of this process -> medians, and ratios to the bare session, pair by pair.

The bare session signs and posts, nothing else: no deadline but aiohttp's own, no guard, no outcome.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import ssl
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

import aiohttp
import httpx2
import uvloop

from bench.nginx import Nginx
from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import OutcomeKind, SignedRequest
from consumer.core.webhook.signing import parse_secret, sign
from consumer.edges.http import SenderOptions, WebhookSender
from tests.support.servers.certificates import Authority

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
BODY = b'{"type":"order.created","timestamp":"2026-01-01T00:00:00Z","data":{"text":"' + b"x" * 900 + b'"}}'
FIXED = (("content-type", "application/json"), ("user-agent", "leveret/0"))
CONTENDERS = ("bare", "aiohttp", "httpx", "httpx2")
CONCURRENCY = (1, 20, 200)

Post: TypeAlias = Callable[[], Awaitable[None]]


class Leg(NamedTuple):
    """One measured run."""

    per_s: float  #: requests per second of wall time
    cpu_us: float  #: CPU microseconds of this process per request


@dataclass(frozen=True, slots=True)
class Course:
    """Where to, and how the other end is trusted."""

    url: str
    ca_file: str


@asynccontextmanager
async def bare(course: Course) -> AsyncIterator[Post]:
    """aiohttp's session with nothing around it; signed with the standard library."""
    key = b64decode(SECRET.removeprefix("whsec_"))
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=course.ca_file))
    timeout = aiohttp.ClientTimeout(total=15)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:

        async def post() -> None:
            stamp = str(int(time.time()))
            mac = hmac.digest(key, f"msg_1.{stamp}.".encode() + BODY, hashlib.sha256)
            headers = {
                **dict(FIXED),
                "webhook-id": "msg_1",
                "webhook-timestamp": stamp,
                "webhook-signature": "v1," + b64encode(mac).decode(),
            }
            async with session.post(
                course.url, data=BODY, headers=headers, allow_redirects=False
            ) as response:
                await response.read()
                assert response.status == 204

        yield post


@asynccontextmanager
async def own_client(course: Course) -> AsyncIterator[Post]:
    """httpx2's ``AsyncClient``, as its documents show it."""
    keys = (parse_secret(SECRET),)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    context = ssl.create_default_context(cafile=course.ca_file)
    async with httpx2.AsyncClient(verify=context, limits=limits, timeout=15, trust_env=False) as client:

        async def post() -> None:
            headers = signed(keys)
            response = await client.post(course.url, content=BODY, headers=dict(headers))
            assert response.status_code == 204

        yield post


@asynccontextmanager
async def sender(client: Literal["aiohttp", "httpx"], course: Course) -> AsyncIterator[Post]:
    """One of ours, whole: signing, guard, deadline, outcome."""
    keys = (parse_secret(SECRET),)
    options = SenderOptions(egress=parse_rule(["127.0.0.0/8"]), ca_file=course.ca_file)
    built = WebhookSender(client, options)

    async def post() -> None:
        request = SignedRequest(url=course.url, headers=signed(keys), body=BODY, timeout_s=15.0)
        outcome = await built.send(request)
        assert outcome.kind is OutcomeKind.OK, outcome

    yield post
    await built.close()


def signed(keys: Sequence[object]) -> tuple[tuple[str, str], ...]:
    """Return the headers of a webhook, signed now."""
    stamp = int(time.time())
    return (
        *FIXED,
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", str(stamp)),
        ("webhook-signature", sign(keys, "msg_1", stamp, BODY)),  # type: ignore[arg-type]  # parse_secret made them
    )


def contender(name: str, course: Course) -> AbstractAsyncContextManager[Post]:
    """Return one of :data:`CONTENDERS`."""
    if name == "bare":
        return bare(course)
    return (
        own_client(course)
        if name == "httpx2"
        else sender("aiohttp" if name == "aiohttp" else "httpx", course)
    )


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


async def race(
    course: Course, names: Sequence[str], requests: int, concurrency: int, pairs: int
) -> dict[str, list[Leg]]:
    """Let the contenders run in turn, every other round in reverse; return the legs of each, by round."""
    legs: dict[str, list[Leg]] = {name: [] for name in names}
    async with AsyncExitStack() as stack:
        posts = {name: await stack.enter_async_context(contender(name, course)) for name in names}
        for post in posts.values():  # opens the connections
            await run_leg(post, max(concurrency * 3, 50), concurrency)
        for number in range(pairs):
            for name in names if number % 2 == 0 else reversed(names):
                legs[name].append(await run_leg(posts[name], requests, concurrency))
    return legs


@asynccontextmanager
async def courses(folder: Path) -> AsyncIterator[Mapping[str, Course]]:
    """Start nginx; yield the course over plain HTTP and the one over TLS."""
    authority = Authority(folder)
    made = authority.pair("127.0.0.1")
    file = folder / "nginx.pem"
    file.write_text(made.key + made.certificate)
    async with Nginx(folder, file) as nginx:
        yield {
            "http": Course(nginx.url("hook"), authority.file),
            "https": Course(f"https://127.0.0.1:{nginx.tls_port}/hook", authority.file),
        }


def ratio(legs: Mapping[str, Sequence[Leg]], name: str) -> float:
    """Return the median, over the rounds, of a contender's requests/s over the bare session's."""
    return median(mine.per_s / other.per_s for mine, other in zip(legs[name], legs["bare"], strict=True))


async def run(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    """Race on every course at every concurrency; return one row each."""
    rows: list[dict[str, object]] = []
    async with courses(folder) as tracks:
        for scheme in options.schemes:
            for concurrency in options.concurrency:
                names = options.contenders
                legs = await race(tracks[scheme], names, options.requests, concurrency, options.pairs)
                for name in names:
                    row: dict[str, object] = {
                        "scheme": scheme,
                        "concurrency": concurrency,
                        "client": name,
                        "per_s": round(median(leg.per_s for leg in legs[name])),
                        "cpu_us": round(median(leg.cpu_us for leg in legs[name]), 1),
                        "ratio": round(ratio(legs, name), 3),
                        "n": options.requests * options.pairs,
                    }
                    rows.append(row)
                    sys.stderr.write(f"{row}\n")
    return rows


def main() -> None:
    """Race, and print the rows as JSON, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3_000, help="of each leg")
    parser.add_argument("--pairs", type=int, default=3, help="legs of each contender")
    parser.add_argument("--concurrency", type=int, nargs="+", default=list(CONCURRENCY))
    parser.add_argument("--schemes", nargs="+", default=["http", "https"], choices=["http", "https"])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    options = parser.parse_args()
    if "bare" not in options.contenders:
        parser.error("the others are compared with bare; keep it among the contenders")
    with tempfile.TemporaryDirectory(prefix="leveret-clients-") as folder:
        for row in uvloop.run(run(options, Path(folder))):
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
