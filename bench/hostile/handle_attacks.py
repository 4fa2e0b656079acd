"""The attacks of item 2: three ways to take the worker's file handles, and one to take its memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from bench.daemon import NO_BREAKER, subscription
from bench.hostile.attacks import HOSTILE, Attack, Stage
from bench.hostile.messages import Raw, send
from bench.processes import free_port, wait_until

IDLE_CONNECTIONS = 400
PATIENCE_S = 150.0
HOST_S = 1.0  #: a host takes so long for an answer, so that many connections are open at once
HOLD_S = 6.0
LARGE = 60
LARGE_BYTES = 12_000_000
PORT = free_port()  #: of every host
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def addresses(hosts: int) -> Sequence[str]:
    """Return as many loopback addresses."""
    return [f"127.0.{number // 200 + 1}.{number % 200 + 1}" for number in range(hosts)]


async def idle_connections(stage: Stage) -> None:
    """Open connections to the health port and say nothing."""
    host, _, port = stage.daemon.listen.rpartition(":")
    writers = []
    for _ in range(IDLE_CONNECTIONS):
        with suppress(OSError):
            writers.append((await asyncio.open_connection(host, int(port)))[1])
    await asyncio.sleep(HOLD_S)
    for writer in writers:
        writer.close()


@dataclass(slots=True)
class Hosts:
    """Healthy hosts: each answers 200 after :data:`HOST_S`, and keeps its connections."""

    hosts: int
    answered: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve meanwhile."""
        async with await asyncio.start_server(self._answer, list(addresses(self.hosts)), PORT):
            yield

    def url(self, address: str) -> str:
        """Return where one of them is."""
        return f"http://{address}:{PORT}/"

    def has_answered(self, wanted: int) -> bool:
        """Say whether so many requests were answered."""
        return self.answered >= wanted

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await asyncio.sleep(HOST_S)
                writer.write(ANSWER)
                self.answered += 1
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
