"""A small AMQP 0-9-1 broker that behaves like a chosen version of RabbitMQ; for versions that are not run.

Data flow: client -> frames -> :class:`FakeBroker` -> one :class:`FakeChannel` per channel -> frames back.
It keeps everything in memory, and knows nothing of clusters, TTL, transactions or ``basic.get``.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from pamqp import base, frame
from pamqp.commands import Basic, Channel, Connection
from pamqp.heartbeat import Heartbeat

from tests.support.broker.behaviour import Behaviour
from tests.support.broker.fake_channel import EVERYTHING, FakeChannel, Refused, closing
from tests.support.broker.fake_queues import FakeQueue, Stored, Topology
from tests.support.servers.raw_server import LoopbackServer
from topology.permissions import Permissions

CAPABILITIES = ("publisher_confirms", "basic.nack", "consumer_cancel_notify", "exchange_exchange_bindings")


class FakeBroker(LoopbackServer):
    """Listens on loopback; an async context manager."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.topology = Topology(behaviour)
        self.rights: Permissions = EVERYTHING  #: of the user of every connection
        self.seen: list[base.Frame] = []  #: methods that clients sent on channels
        self.refusals: list[str] = []  #: reasons for which it closed channels and connections
        self._sessions: list[_Session] = []

    @property
    def url(self) -> str:
        """Return the AMQP URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def queues(self) -> dict[str, FakeQueue]:
        """Return the queues by name."""
        return self.topology.queues

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        session = _Session(self, reader, writer)
        self._sessions.append(session)
        try:
            await session.run()
        finally:
            self._sessions.remove(session)
            session.end()
            self.pump()

    def put(self, queue: str, body: bytes = b"{}", headers: dict[str, Any] | None = None) -> None:
        """Put a message into a queue."""
        properties = Basic.Properties(headers=headers or {}, delivery_mode=2)
        self.queues[queue].ready.append(Stored(body, properties, "", queue))
        self.pump()

    def delete(self, queue: str) -> None:
        """Delete a queue, and cancel its consumers."""
        self.topology.delete(self.queues[queue])

    def channels(self) -> list[FakeChannel]:
        """Return the open channels of all connections."""
        return [channel for session in self._sessions for channel in session.channels.values()]

    def lose_quorum(self) -> None:
        """Play the loss of most nodes: leaders remain, answer questions, and confirm no publish."""
        self.topology.has_quorum = False

    def regain_quorum(self) -> None:
        """Play their return: the publishes of open channels are confirmed late."""
        self.topology.has_quorum = True
        for channel in self.channels():
            channel.regain_quorum()
        self.pump()

    def time_out(self, queue: str) -> None:
        """Let every unsettled message of *queue* reach the consumer time-out now."""
        for session in list(self._sessions):
            session.time_out(queue)
        self.pump()

    def pump(self) -> None:
        """Give ready messages to consumers, in turn."""
        for queue in list(self.queues.values()):
            while queue.ready:
                free = next((one for one in queue.consumers if one.takes()), None)
                if free is None:
                    break
                queue.consumers.remove(free)
                queue.consumers.append(free)
                free.channel.deliver(free, queue.ready.popleft())


class _Session:
    """One connection of a client."""

    def __init__(
        self, broker: FakeBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._largest = broker.behaviour.first_frame_max
        self.channels: dict[int, FakeChannel] = {}

    async def run(self) -> None:
        """Shake hands, then answer until the client leaves or is refused."""
        try:
            await self._open()
            while True:
                number, received = await self._read()
                if isinstance(received, Connection.Close):
                    self._send(0, Connection.CloseOk())
                    await self._left()
                    return
                self._handle(number, received)
                self._broker.pump()
        except Refused as refused:
            self._broker.refusals.append(str(refused))
            self._send(0, Connection.Close(refused.code, refused.text, 0, 0))
            await self._left()

    async def _left(self) -> None:
        """Return once the client has closed its side: to cut it off would lose the last frame."""
        await self._writer.drain()
        while await self._reader.read(65_536):
            pass

    def end(self) -> None:
        """Return all messages in hand; delete exclusive queues."""
        for channel in self.channels.values():
            channel.close()
        queues = self._broker.queues
        for name in [name for name, queue in queues.items() if queue.owner is self]:
            del queues[name]

    def time_out(self, queue: str) -> None:
        """Play the time-out on every channel that holds messages of *queue*."""
        for number, channel in list(self.channels.items()):
            if any(consumer.queue.name == queue for consumer, _ in channel.unacked.values()):
                self._guarded(number, partial(channel.time_out, queue))

    async def _open(self) -> None:
        behaviour = self._broker.behaviour
        await self._reader.readexactly(8)
        capabilities: dict[str, Any] = dict.fromkeys(CAPABILITIES, True)
        if behaviour.accepts_cancel_ok:
            capabilities["accept_consumer_cancel_ok"] = True
        properties: dict[str, Any] = {
            "product": "RabbitMQ",
            "version": behaviour.version,
            "capabilities": capabilities,
        }
        self._send(0, Connection.Start(0, 9, properties, "PLAIN", "en_US"))
        await self._read()
        self._send(0, Connection.Tune(2_047, behaviour.frame_max, 60))
        _, tuned = await self._read()
        if 0 < tuned.frame_max < behaviour.least_frame_max:
            raise Refused(530, f"NOT_ALLOWED - negotiated frame_max = {tuned.frame_max}", whole=True)
        self._largest = tuned.frame_max
        await self._read()
        self._send(0, Connection.OpenOk())

    def _handle(self, number: int, received: Any) -> None:
        if isinstance(received, Heartbeat) or number == 0:
            return
        match received:
            case Channel.Open():
                send = partial(self._send, number)
                self.channels[number] = FakeChannel(
                    self._broker.topology, lambda: self._broker.rights, send, self, self._broker.seen
                )
                send(Channel.OpenOk())
            case Channel.Close():
                self.channels.pop(number).close()
                self._send(number, Channel.CloseOk())
            case Channel.CloseOk():
                pass
            case _ if number in self.channels:
                self._guarded(number, partial(self.channels[number].handle, received))

    def _guarded(self, number: int, step: Callable[[], None]) -> None:
        """Run *step*; a refusal of the channel closes it, one of the connection is passed on."""
        try:
            step()
        except Refused as refused:
            if refused.whole:
                raise
            self._broker.refusals.append(str(refused))
            self.channels.pop(number).close()
            self._send(number, closing(refused))

    async def _read(self) -> tuple[int, Any]:
        head = await self._reader.readexactly(7)
        size = struct.unpack(">BHI", head)[2]
        if 0 < self._largest < size + 8:
            raise Refused(501, f"FRAME_ERROR - frame of {size + 8} bytes, max is {self._largest}", whole=True)
        _, number, received = frame.unmarshal(head + await self._reader.readexactly(size + 1))
        return number, received

    def _send(self, number: int, answer: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(frame.marshal(answer, number))
