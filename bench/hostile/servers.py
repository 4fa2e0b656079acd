"""Judge the outcome of every kind of answer, with the real daemon and each of its two senders.

Each kind is an endpoint of its own. Two events go to all of them, one after the other: the first is answered
as its kind does, every other request with 200. So a kind that counts as delivered gets one request for
each event, and any other kind a second one for the first event. A kind falls short where it gets more or
fewer, or where the daemon counts other outcomes than documented. All kinds of a client share one daemon.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import EventSpec, publish
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription
from tests.support.servers.answers import KINDS, AnswerServer, Kind

CLIENTS = ("aiohttp", "httpx")
WITHIN_S = 60.0
QUIET_S = 2.0  #: retries come after 0.25 s; later requests do not count
FIRST, SECOND = "answers_000001", "answers_000002"

GOALS = (Goal(name="servers_short", text="0", unit="answers", n=40),)

_ATTEMPTS = re.compile(r'^leveret_attempts_total\{[^}]*kind="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)


def event(name: str) -> EventSpec:
    """Return one event for every kind."""
    return EventSpec(id=name, tenant="t00", type="order.created", body=b'{"number":1}')


def wanted(kind: Kind) -> Mapping[str, int]:
    """Return how many requests each event has to make."""
    return {FIRST: 1 if kind.outcome == "ok" else 2, SECOND: 1}


async def short(bench: Bench, broker: Broker, client: str, kinds: Sequence[Kind]) -> list[str]:
    """Return the kinds of which something else came than documented."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(AnswerServer(kind)) for kind in kinds]
        settings = {"LEVERET_SENDING__CLIENT": client}
        daemon = await stack.enter_async_context(Daemon(bench.folder, broker.url, settings, client))
        await daemon.start()
        policy = {"retry": retry(base_s=0.25, multiplier=1, jitter=0), "breaker": NO_BREAKER}
        await daemon.subscribe(
            [
                subscription(f"kind-{number:02d}", server.url, **policy)
                for number, server in enumerate(servers)
            ]
        )
        for name in (FIRST, SECOND):
            await publish(broker.url, [event(name)])
            if not await wait_until(partial(all_done, servers, name), WITHIN_S):
                bench.say(f"{client}: not every kind has its requests for {name}")
        await asyncio.sleep(QUIET_S)
        found = [
            f"{client}: {server.kind.name}: {dict(server.seen)}" for server in servers if differs(server)
        ]
        counted = await asyncio.to_thread(outcomes, daemon)
        expected = wanted_outcomes(kinds)
        return found + [
            f"{client}: {counted[name]} attempts were {name}, not {expected[name]}"
            for name in sorted({*counted, *expected})
            if counted[name] != expected[name]
        ]


def wanted_outcomes(kinds: Sequence[Kind]) -> Counter[str]:
    """Return how many attempts have to end in each outcome, by all kinds together."""
    requests = sum(sum(wanted(kind).values()) for kind in kinds)
    first = Counter(kind.outcome for kind in kinds)
    return first + Counter(ok=requests - first.total())


def outcomes(daemon: Daemon) -> Counter[str]:
    """Return how many attempts ended in each outcome, as the daemon counts them."""
    text = fetch(f"http://{daemon.listen}/metrics", timeout_s=10).decode()
    return Counter({name: int(float(count)) for name, count in _ATTEMPTS.findall(text) if float(count)})


def all_done(servers: Sequence[AnswerServer], name: str) -> bool:
    """Return whether an event has made its requests, and all expected log lines are there."""
    return all(each.said.is_set() and each.seen[name] >= wanted(each.kind)[name] for each in servers)


def differs(server: AnswerServer) -> bool:
    """Return whether an event made too many requests or too few."""
    return dict(server.seen) != dict(wanted(server.kind))


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run all kinds with both clients."""
    kinds = KINDS[: bench.count(len(KINDS), 2)]
    found: list[str] = []
    for client in CLIENTS:
        async with Broker(bench) as broker:  # a broker knows one store, and each client has its own
            found += await short(bench, broker, client, kinds)
    bench.note("servers_short_are", found)
    return [Measured(name="servers_short", value=len(found), n=len(kinds) * len(CLIENTS))]


PROOF = Proof(name="servers", goals=GOALS, prove=prove)
