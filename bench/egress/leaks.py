"""What 100,000 requests to healthy, resetting, slow and oversized receivers leave behind.

Both senders, each in a process of its own: ``python -m bench.egress.leaks CLIENT REQUESTS PORTS RESULT``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import uvloop

from bench.egress.child import receivers, result_of
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.egress import parse_rule
from consumer.core.model import SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender

REQUESTS = 100_000
SETTLING = 0.2  #: of all requests, before anything is compared
SAMPLES = 160  #: of the memory, over the rest
CONCURRENCY = 100
KEEPALIVE_S = 0.5
DEADLINE_S = 0.5
KINDS = ("healthy", "reset", "slow", "big")
CLIENTS = ("aiohttp", "httpx")
RUN_S = 1_200.0

GOALS = (
    Goal(name="leak_open_files", text="≤ 2", unit="files", n=REQUESTS),
    Goal(name="leak_tasks", text="≤ 2", unit="tasks", n=REQUESTS),
    Goal(name="leak_bytes_per_request", text="≤ 49.999", unit="bytes", n=int(REQUESTS * (1 - SETTLING))),
)


@dataclass(slots=True)
class Findings:
    """What one process found."""

    files: list[int] = field(default_factory=list)  #: open after the settling, and at the end
    tasks: list[int] = field(default_factory=list)
    rss: list[tuple[int, int]] = field(default_factory=list)  #: (requests so far, resident bytes)
    kinds: dict[str, int] = field(default_factory=dict)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line through *points* with the least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / sum((x - mean_x) ** 2 for x, _ in points)


def rss_bytes() -> int:
    """Return the resident memory of this process. Source: proc(5), statm."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


class Run:
    """One sender and its requests."""

    def __init__(self, client: Literal["aiohttp", "httpx"], ports: Sequence[int]) -> None:
        options = SenderOptions(egress=parse_rule(["127.0.0.0/8"]), keepalive_s=KEEPALIVE_S)
        self.sender = WebhookSender(client, options)
        self.found = Findings()
        self.urls = [f"http://127.0.0.1:{port}/hook" for port in ports]
        self.done = 0
        self.kinds: Counter[str] = Counter()

    async def send(self, count: int, every: int = 0) -> None:
        """Send *count* requests in turn to all; look at the memory after each *every*."""
        left = iter(range(count))

        async def work() -> None:
            for number in left:
                url = self.urls[number % len(self.urls)]
                outcome = await self.sender.send(
                    SignedRequest(url, (("webhook-id", "m"),), b"{}", DEADLINE_S)
                )
                self.kinds[outcome.kind.value] += 1
                self.done += 1
                if every and self.done % every == 0:
                    self.found.rss.append((self.done, rss_bytes()))

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))

    async def look(self) -> None:
        """Count open files and tasks once everything idle has gone."""
        await asyncio.sleep(KEEPALIVE_S * 3)
        gc.collect()
        self.found.files.append(len(os.listdir("/proc/self/fd")))
        self.found.tasks.append(len(asyncio.all_tasks()))


async def run(client: Literal["aiohttp", "httpx"], requests: int, ports: Sequence[int]) -> Findings:
    """Send all, and return what was found."""
    one = Run(client, ports)
    settling = int(requests * SETTLING)
    await one.send(settling)
    await one.look()
    await one.send(requests - settling, max((requests - settling) // SAMPLES, 1))
    await one.look()
    await one.sender.close()
    one.found.kinds = dict(one.kinds)
    return one.found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both senders, and report the worse one."""
    requests = bench.count(REQUESTS, 2_000)
    findings: list[Findings] = []
    async with receivers(bench.folder) as ports:
        wanted = json.dumps([ports[kind] for kind in KINDS])
        for client in CLIENTS:
            found = Findings(
                **await result_of("bench.egress.leaks", [client, str(requests), wanted], bench.folder, RUN_S)
            )
            findings.append(found)
            bench.note(f"leaks_{client}_kinds", found.kinds)
            bench.note(f"leaks_{client}_files", found.files)
            bench.note(f"leaks_{client}_bytes_per_request", round(slope(found.rss), 2))
    return [
        Measured(name="leak_open_files", value=max(f.files[1] - f.files[0] for f in findings), n=requests),
        Measured(name="leak_tasks", value=max(f.tasks[1] - f.tasks[0] for f in findings), n=requests),
        Measured(
            name="leak_bytes_per_request",
            value=round(max(slope(f.rss) for f in findings), 2),
            n=requests - int(requests * SETTLING),
        ),
    ]


PROOF = Proof(name="leaks", goals=GOALS, prove=prove)


if __name__ == "__main__":
    _, name, count, given, target = sys.argv
    which: Literal["aiohttp", "httpx"] = "aiohttp" if name == "aiohttp" else "httpx"
    result = uvloop.run(run(which, int(count), json.loads(given)))
    Path(target).write_text(json.dumps(asdict(result)), encoding="utf-8")
