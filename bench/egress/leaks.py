"""Measure the memory, files and tasks that 100,000 requests leave behind, to good and bad receivers.

Both senders, each in a process of its own: ``python -m bench.egress.leaks CLIENT REQUESTS PORTS LEAK RESULT``
(LEAK is ``leak`` or ``none``). A third process leaks on purpose: its figures have to miss every goal, or the
others show nothing.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import uvloop

from bench.egress.child import receivers, result_of
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.endpoint.egress import parse_rule
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

#: Leaks of the leaking process: so many bytes a request, and every so many requests a file and a task.
LEAKED_BYTES = 200
LEAKED_EVERY = 100
LEAK_SHARE = 0.2  #: of the requests are enough to see that

#: Least shares of outcomes among all requests, with room for a busy machine.
LEAST_SHARES = {"ok": 0.4, "reset": 0.05, "timeout_total": 0.001}

GOALS = (
    Goal(name="leak_open_files", text="≤ 2", unit="files", n=REQUESTS),
    Goal(name="leak_tasks", text="≤ 2", unit="tasks", n=REQUESTS),
    Goal(name="leak_bytes_per_request", text="≤ 49.999", unit="bytes", n=int(REQUESTS * (1 - SETTLING))),
)


@dataclass(slots=True)
class Findings:
    """The counts of one process."""

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

    def __init__(self, client: Literal["aiohttp", "httpx"], ports: Sequence[int], *, leak: bool) -> None:
        options = SenderOptions(egress=parse_rule(["127.0.0.0/8"]), keepalive_s=KEEPALIVE_S)
        self.sender = WebhookSender(client, options)
        self.found = Findings()
        self.urls = [f"http://127.0.0.1:{port}/hook" for port in ports]
        self.done = 0
        self.kinds: Counter[str] = Counter()
        self.leak = leak
        self.leaked: list[object] = []

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
                if self.leak:
                    self.keep_something()
                if every and self.done % every == 0:
                    self.found.rss.append((self.done, rss_bytes()))

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))

    def keep_something(self) -> None:
        """Leak as a careless sender would."""
        self.leaked.append(bytes(LEAKED_BYTES))
        if self.done % LEAKED_EVERY == 0:
            self.leaked += [os.open(os.devnull, os.O_RDONLY), asyncio.ensure_future(asyncio.Event().wait())]

    async def look(self) -> None:
        """Count open files and tasks once everything idle has gone."""
        await asyncio.sleep(KEEPALIVE_S * 3)
        gc.collect()
        self.found.files.append(len(os.listdir("/proc/self/fd")))
        self.found.tasks.append(len(asyncio.all_tasks()))


async def run(
    client: Literal["aiohttp", "httpx"], requests: int, ports: Sequence[int], *, leak: bool
) -> Findings:
    """Send all, and return the counts."""
    one = Run(client, ports, leak=leak)
    settling = int(requests * SETTLING)
    await one.send(settling)
    await one.look()
    await one.send(requests - settling, max((requests - settling) // SAMPLES, 1))
    await one.look()
    await one.sender.close()
    one.found.kinds = dict(one.kinds)
    return one.found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both senders, and report the worse one; then see that a leak would have been found."""
    requests = bench.count(REQUESTS, 2_000)
    control = max(2_000, int(requests * LEAK_SHARE))
    findings: list[Findings] = []
    async with receivers(bench.folder) as ports:
        wanted = json.dumps([ports[kind] for kind in KINDS])

        async def one(client: str, count: int, leak: str) -> Findings:
            arguments = [client, str(count), wanted, leak]
            return Findings(**await result_of("bench.egress.leaks", arguments, bench.folder, RUN_S))

        for client in CLIENTS:
            found = await one(client, requests, "none")
            findings.append(found)
            bench.note(f"leaks_{client}_kinds", found.kinds)
            bench.note(f"leaks_{client}_files", found.files)
            bench.note(f"leaks_{client}_bytes_per_request", round(slope(found.rss), 2))
        leaking = measured([await one(CLIENTS[0], control, "leak")], control)
    bench.note("leaks_on_purpose", {each.name: each.value for each in leaking})
    seen = not any(goal.met(each.value) for goal, each in zip(GOALS, leaking, strict=True))
    valid = seen and all(is_mixed(found.kinds) for found in findings)
    return [replace(each, valid=valid) for each in measured(findings, requests)]


def measured(findings: Sequence[Findings], requests: int) -> list[Measured]:
    """Return the figures of the worst of *findings*, in the order of the goals."""
    return [
        Measured(name="leak_open_files", value=max(f.files[1] - f.files[0] for f in findings), n=requests),
        Measured(name="leak_tasks", value=max(f.tasks[1] - f.tasks[0] for f in findings), n=requests),
        Measured(
            name="leak_bytes_per_request",
            value=round(max(slope(f.rss) for f in findings), 2),
            n=requests - int(requests * SETTLING),
        ),
    ]


def is_mixed(kinds: Mapping[str, int]) -> bool:
    """Return whether every kind of receiver did its part: otherwise nothing was there that could leak."""
    total = sum(kinds.values())
    return all(kinds.get(kind, 0) >= share * total for kind, share in LEAST_SHARES.items())


PROOF = Proof(name="leaks", goals=GOALS, prove=prove)


if __name__ == "__main__":
    _, name, count, given, leaking, target = sys.argv
    which: Literal["aiohttp", "httpx"] = "aiohttp" if name == "aiohttp" else "httpx"
    result = uvloop.run(run(which, int(count), json.loads(given), leak=leaking == "leak"))
    Path(target).write_text(json.dumps(asdict(result)), encoding="utf-8")
