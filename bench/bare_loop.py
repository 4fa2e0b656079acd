"""The yardstick: the barest honest loop that consumes, signs, POSTs and acks in one Python process.

It has no retry, breaker, log, metric, fairness or check, so no daemon with those can be faster on the same
libraries: uvloop, aiormq (under aio-pika) and aiohttp. ``python -m bench.bare_loop JOB.json`` runs one leg:

* ``loop``: the whole thing over the queues in the job;
* ``consume``: consume and ack only;
* ``post``: sign and POST the same body again and again;

The last two are the bounds that the loop itself is judged by.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import aiohttp
import aiormq
import uvloop

from tests.support.broker.load import connect
from tests.support.processes.children import python_env, spawn, stop, wait_exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One leg."""

    mode: str  #: loop | consume | post
    amqp_url: str
    queues: Sequence[str]
    targets: Sequence[tuple[str, str]]  #: URL and ``whsec_`` secret of every endpoint of an event
    prefetch: int  #: per queue
    wanted: int  #: end after so many events
    body: str = ""  #: for ``post``


ACK_EVERY_S = 0.005  #: acks of this long travel together: faster than one write each, by measurement


class Acks:
    """Acks in few frames: the settled head of each channel in one, with ``multiple``."""

    def __init__(self) -> None:
        self.settled: dict[aiormq.abc.AbstractChannel, set[int]] = {}
        self.head: dict[aiormq.abc.AbstractChannel, int] = {}
        self.planned = False
        self.flushes: set[asyncio.Task[None]] = set()

    def done(self, message: aiormq.abc.DeliveredMessage) -> None:
        """Note that *message* is settled; its ack leaves within :data:`ACK_EVERY_S`."""
        assert message.delivery_tag is not None
        self.settled.setdefault(message.channel, set()).add(message.delivery_tag)
        if not self.planned:
            self.planned = True
            asyncio.get_running_loop().call_later(ACK_EVERY_S, self._flush)

    def _flush(self) -> None:
        task = asyncio.get_running_loop().create_task(self.flush())
        self.flushes.add(task)
        task.add_done_callback(self.flushes.discard)

    async def flush(self) -> None:
        """Write every ack that is due."""
        self.planned = False
        for channel, tags in self.settled.items():
            head = start = self.head.get(channel, 0)
            while head + 1 in tags:
                head += 1
                tags.discard(head)
            if head > start:
                self.head[channel] = head
                await channel.basic_ack(head, multiple=True, wait=False)


class Loop:
    """State of one leg."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.targets = [(url, b64decode(secret.removeprefix("whsec_"))) for url, secret in job.targets]
        self.done = 0
        self.failed = 0
        self.began = 0.0
        self.cpu_began = time.process_time()
        self.finished = asyncio.Event()
        self.acks = Acks()
        self.session: aiohttp.ClientSession

    async def post(self, url: str, key: bytes, event_id: str, body: bytes) -> None:
        """Sign and send one webhook."""
        stamp = str(int(time.time()))
        mac = hmac.digest(key, f"{event_id}.{stamp}.".encode() + body, hashlib.sha256)
        headers = {
            "content-type": "application/json",
            "user-agent": "leveret/0",
            "webhook-id": event_id,
            "webhook-timestamp": stamp,
            "webhook-signature": "v1," + b64encode(mac).decode(),
        }
        async with self.session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            await response.read()
            if response.status != 204:
                self.failed += 1

    def count(self) -> None:
        """Count one event; the last one ends the leg."""
        self.done += 1
        if self.done >= self.job.wanted:
            self.finished.set()

    async def on_message(self, message: aiormq.abc.DeliveredMessage) -> None:
        """Take one event: every target, then the ack. The client runs each callback as its own task."""
        if not self.began:
            self.began = time.monotonic()
            self.cpu_began = time.process_time()
        if self.job.mode == "loop":
            event_id = str(message.header.properties.message_id)
            if len(self.targets) == 1:
                url, key = self.targets[0]
                await self.post(url, key, event_id, message.body)
            else:
                posts = (self.post(url, key, event_id, message.body) for url, key in self.targets)
                await asyncio.gather(*posts)
        self.acks.done(message)
        self.count()

    async def post_for_ever(self) -> None:
        """POST until enough were sent."""
        url, key = self.targets[0]
        body = self.job.body.encode()
        while self.done < self.job.wanted:
            await self.post(url, key, "evt_0", body)
            self.count()


def connector() -> aiohttp.TCPConnector:
    """Return a pool like the daemon's: no limit of its own, connections kept open."""
    return aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=60, ttl_dns_cache=300)


async def run(job: Job) -> dict[str, float]:
    """Run one leg and return ``{"rate", "seconds", "failed"}``; the rate is in events a second."""
    loop = Loop(job)
    async with aiohttp.ClientSession(
        connector=connector(), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:
        loop.session = session
        if job.mode == "post":
            loop.began = time.monotonic()
            await asyncio.gather(*(loop.post_for_ever() for _ in range(job.prefetch)))
        else:
            connection = await connect(job.amqp_url)
            for queue in job.queues:
                channel = await connection.channel(publisher_confirms=False)
                await channel.basic_qos(prefetch_count=job.prefetch)
                await channel.basic_consume(queue, loop.on_message)
            await loop.finished.wait()
            await loop.acks.flush()
        seconds = time.monotonic() - loop.began
        if job.mode != "post":
            await connection.close()  # flushes the acks that are still in the socket's buffer
    cpu = time.process_time() - loop.cpu_began
    return {
        "rate": loop.done / seconds,
        "seconds": seconds,
        "failed": loop.failed,
        "cpu_ratio": cpu / seconds,
    }


async def run_leg(job: Job, folder: Path, timeout_s: float = 600.0) -> dict[str, float]:
    """Run one leg in a process of its own and return its result.

    Raises:
        RuntimeError: the leg broke, or an answer was not 204.
    """
    path, log = folder / "bare-job.json", folder / "bare.out"
    result = folder / "bare-result.json"
    result.unlink(missing_ok=True)
    path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    process: subprocess.Popen[bytes] = spawn(
        [sys.executable, "-m", "bench.bare_loop", str(path), str(result)], log=log, env=python_env()
    )
    try:
        await wait_exit(process, timeout_s)
    finally:
        await stop(process)
    if process.returncode != 0 or not result.exists():
        raise RuntimeError(f"the bare loop ended with {process.returncode}: {log.read_text()[-800:]}")
    found: dict[str, float] = json.loads(result.read_text())
    if found["failed"]:
        raise RuntimeError(f"{found['failed']:.0f} answers were not 204")
    return found


if __name__ == "__main__":
    outcome = uvloop.run(run(Job(**json.loads(Path(sys.argv[1]).read_text()))))
    Path(sys.argv[2]).write_text(json.dumps(outcome), encoding="utf-8")
