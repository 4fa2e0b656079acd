"""A real and a fake publisher, each with a broker that a test can cut off."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import aio_pika

from consumer.edges.broker.publisher import ConfirmingPublisher
from consumer.ports import Publication, Publisher
from tests.support.broker.topology import PATIENCE_S, SMALL, Live
from tests.support.fakes import FakePublisher
from tests.support.processes.children import free_port

NAMES = SMALL.names


ROOM = 3  #: entries that the parked queue of these tests takes


HELLO = Publication(
    exchange=NAMES.due,
    routing_key=NAMES.direct_key(NAMES.due_queue(0)),
    body=b"\x00hello \xff",
    headers={"leveret-v": 1, "leveret-made": 2, "leveret-exact": True, "leveret-event": "ord-1 \u00e9"},
    content_type="application/json",
)


ENTRY = Publication(exchange=NAMES.dlx, routing_key=NAMES.parked_key("exhausted"), body=b"entry")


ADRIFT = Publication(exchange=NAMES.wait, routing_key="no such rung", body=b"x")


class Relay:
    """A TCP relay to the broker: a test can cut it, without a FIN of the broker, and mend it."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = free_port()  #: reserved for the relay while it is cut

    async def mend(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        self._writers |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


class World(Protocol):
    """A publisher, and a broker for it that can be cut off."""

    publisher: Publisher

    async def cut(self) -> None:
        """Cut the connection; it stays cut until :meth:`mend`."""

    async def mend(self) -> None:
        """Make the connection possible again."""

    async def taken(self) -> list[tuple[Publication, str]]:
        """Return the messages of the first due queue and their message ids, in order."""


class FakeWorld:
    """The fake is publisher and broker in one."""

    def __init__(self) -> None:
        self.fake = FakePublisher()
        self.fake.unbound = {ADRIFT.routing_key}
        self.fake.on_confirmed = lambda _published: self._fill()
        self.publisher: Publisher = self.fake

    async def cut(self) -> None:
        self.fake.connected, self.fake.reason = False, "not connected"

    async def mend(self) -> None:
        self.fake.connected, self.fake.reason = True, None

    async def taken(self) -> list[tuple[Publication, str]]:
        return [(p.publication, p.message_id) for p in self.fake.to(HELLO.routing_key)]

    def _fill(self) -> None:
        if len(self.fake.to("parked.")) >= ROOM:
            self.fake.full = {"parked."}


class RealWorld:
    """The real publisher on a vhost of its own, behind a relay."""

    def __init__(self, live: Live, relay: Relay, publisher: ConfirmingPublisher) -> None:
        self.publisher: Publisher = publisher
        self.real = publisher
        self.live = live
        self._relay = relay

    async def cut(self) -> None:
        await self._relay.cut()
        await asyncio.wait_for(self.real.pressed_for(0), PATIENCE_S)

    async def mend(self) -> None:
        await self._relay.mend()
        await asyncio.wait_for(self.real.relieved(), PATIENCE_S)

    async def messages(self) -> list[aio_pika.abc.AbstractIncomingMessage]:
        """Return the messages in the first due queue."""
        name = NAMES.due_queue(0)
        queue = await self.live.channel.declare_queue(name, passive=True)
        return [each for _, each in await self.live.take([name], queue.declaration_result.message_count or 0)]

    async def taken(self) -> list[tuple[Publication, str]]:
        return [
            (
                replace(
                    HELLO,
                    body=message.body,
                    headers={k: v for k, v in message.headers.items() if k != "x-delivery-count"},
                    content_type=message.content_type,
                    content_encoding=message.content_encoding,
                ),
                message.message_id or "",
            )
            for message in await self.messages()
        ]
