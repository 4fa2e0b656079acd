"""How long an attempt can outlive its deadline: bytes that drip, a window of zero, TLS and DNS that stall.

Both senders, each in a process of its own: ``python -m bench.egress.deadlines CLIENT COUNT PORTS RESULT``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import uvloop

from bench.egress.child import receivers, result_of
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.endpoint.egress import parse_rule
from consumer.core.model import SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender

COUNT = 100  #: of each kind
AT_ONCE = 25
DEADLINE_S = 1.0
BODY = b"x" * 4_000_000  #: more than the buffers of a connection hold at first
CLIENTS = ("aiohttp", "httpx")
KINDS = ("byte-drip", "zero-window", "stalled-handshake", "stalled-dns")

GOALS = (Goal(name="deadline_overrun_s", text="≤ 0.5", unit="s", n=COUNT * len(KINDS)),)


async def run(client: Literal["aiohttp", "httpx"], count: int, ports: Mapping[str, int]) -> dict[str, object]:
    """Send *count* requests of each kind; return the longest overrun of each, and the kinds of outcome."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:  # a name server that never answers
        silent.bind(("127.0.0.1", 0))
        options = SenderOptions(
            egress=parse_rule(["127.0.0.0/8"]),
            connect_timeout_s=10.0,
            resolve_timeout_s=8.0,
            name_servers=(f"127.0.0.1:{silent.getsockname()[1]}",),
        )
        sender = WebhookSender(client, options)
        urls = {
            "byte-drip": (f"http://127.0.0.1:{ports['drip']}/", b"{}"),
            "zero-window": (f"http://127.0.0.1:{ports['deaf']}/", BODY),
            "stalled-handshake": (f"https://127.0.0.1:{ports['mute']}/", b"{}"),
            "stalled-dns": ("http://name-{}.example/", b"{}"),
        }
        found: dict[str, object] = {}
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)

        async def one(url: str, body: bytes) -> tuple[float, str]:
            async with gate:
                began = loop.time()
                outcome = await sender.send(SignedRequest(url, (("webhook-id", "m"),), body, DEADLINE_S))
                return loop.time() - began - DEADLINE_S, outcome.kind.value

        for name, (url, body) in urls.items():
            ends = await asyncio.gather(*(one(url.format(number), body) for number in range(count)))
            found[name] = {"overrun_s": max(s for s, _ in ends), "kinds": sorted({kind for _, kind in ends})}
        await sender.close()
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both senders, and report the longest overrun; another end than a time-out makes it invalid."""
    count = bench.count(COUNT, 4)
    overruns: list[float] = []
    valid = True
    async with receivers(bench.folder) as ports:
        for client in CLIENTS:
            arguments = [client, str(count), json.dumps(dict(ports))]
            found = await result_of("bench.egress.deadlines", arguments, bench.folder, 600.0)
            bench.note(f"deadlines_{client}", found)
            overruns += [each["overrun_s"] for each in found.values()]
            valid = valid and all(
                set(each["kinds"]) <= {"timeout_total", "timeout_connect"} for each in found.values()
            )
    return [
        Measured(name="deadline_overrun_s", value=round(max(overruns), 4), n=count * len(KINDS), valid=valid)
    ]


PROOF = Proof(name="deadlines", goals=GOALS, prove=prove)


if __name__ == "__main__":
    _, name, wanted, given, target = sys.argv
    which: Literal["aiohttp", "httpx"] = "aiohttp" if name == "aiohttp" else "httpx"
    result = uvloop.run(run(which, int(wanted), json.loads(given)))
    Path(target).write_text(json.dumps(result), encoding="utf-8")
