"""Three attacks that take the worker's file handles, and one that takes its memory (item 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from bench.hostile.attacks import Attack, Stage
from tests.support.hostile.healthy_hosts import Hosts, addresses
from tests.support.hostile.messages import HOSTILE, Raw, send
from tests.support.processes.children import wait_until
from tests.support.processes.daemon import NO_BREAKER, subscription

IDLE_CONNECTIONS = 400
PATIENCE_S = 150.0
HOLD_S = 6.0
LARGE = 60
LARGE_BYTES = 12_000_000


async def idle_connections(stage: Stage) -> None:
    """Open connections to the health port and send nothing."""
    host, _, port = stage.daemon.listen.rpartition(":")
    writers = []
    for _ in range(IDLE_CONNECTIONS):
        with suppress(OSError):
            writers.append((await asyncio.open_connection(host, int(port)))[1])
    await asyncio.sleep(HOLD_S)
    for writer in writers:
        writer.close()


def many_hosts(name: str, hosts: int, events: int, handles: int) -> Attack:
    """Return an attack: events that go to many hosts, which are served while they come."""

    def own(_stage: Stage) -> Sequence[Mapping[str, object]]:
        return [
            subscription(f"host-{address}", Hosts(hosts).url(address), tenant=HOSTILE, breaker=NO_BREAKER)
            for address in addresses(hosts)
        ]

    async def strike(stage: Stage) -> None:
        serving = Hosts(hosts)
        async with serving.serving():
            await send(stage.broker.url, (Raw(id=f"{name}-{n}") for n in range(events)), 0.5)
            await wait_until(lambda: serving.has_answered(events * hosts), PATIENCE_S)

    return Attack(name=name, item=2, strike=strike, subscriptions=own, handles=handles, seconds=20.0)


async def large_messages(stage: Stage) -> None:
    """Publish the largest messages as fast as the broker takes them."""
    body = bytes(LARGE_BYTES)
    many = (Raw(id=f"large-{n}", body=body) for n in range(stage.bench.count(LARGE, 4)))
    await send(stage.broker.url, many, 0.0)


ATTACKS: Sequence[Attack] = (
    Attack(name="idle-connections", item=2, strike=idle_connections, handles=256),
    many_hosts("healthy-hosts", hosts=500, events=4, handles=400),
    many_hosts("few-handles", hosts=60, events=4, handles=64),
)

MEMORY: Sequence[Attack] = (
    Attack(
        name="large-messages",
        item=2,
        strike=large_messages,
        settings={"LEVERET_LIMITS__MEMORY_BYTES": str(256 * 1024 * 1024)},
    ),
)
