"""Publish messages whose frames are already encoded, so that hostile messages cost their sender little."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from aiormq.abc import ChannelFrame
from pamqp import encode, frame
from pamqp.body import ContentBody
from pamqp.commands import Basic

from tests.support.broker.load import EXCHANGE, connect

CONTENT_TYPE, CONTENT_ENCODING, HEADERS, MESSAGE_ID = 0x8000, 0x4000, 0x2000, 0x0080
HOSTILE = "hostile"  #: the tenant that attacks publish for and subscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """One message, whose header table may be any bytes."""

    id: str
    body: bytes = b"{}"
    table: bytes = b""  #: entries behind the tenant's, without their length
    type: str = "hostile.event"
    content_type: str = "application/json"
    content_encoding: str = ""
    exchange: str = EXCHANGE
    tenant: str = HOSTILE

    def frames(self, channel: int, body_size: int) -> bytes:
        """Return all frames of publishing it."""
        method = Basic.Publish(exchange=self.exchange, routing_key=self.type)
        bodies = [self.body[at : at + body_size] for at in range(0, len(self.body), body_size)]
        return b"".join(
            (
                frame.marshal(method, channel),
                self._header(channel),
                *(frame.marshal(ContentBody(part), channel) for part in bodies),
            )
        )

    def _header(self, channel: int) -> bytes:
        table = entry("tenant", b"S", long_text(self.tenant.encode())) + self.table
        encoding = encode.short_string(self.content_encoding) if self.content_encoding else b""
        flags = CONTENT_TYPE | HEADERS | MESSAGE_ID | (CONTENT_ENCODING if encoding else 0)
        payload = b"".join(
            (
                struct.pack(">HHQH", 60, 0, len(self.body), flags),
                encode.short_string(self.content_type),
                encoding,
                long_text(table),
                encode.short_string(self.id),
            )
        )
        return struct.pack(">BHI", 2, channel, len(payload)) + payload + b"\xce"


def long_text(data: bytes) -> bytes:
    """Return *data* behind its length, as frames carry strings, tables and arrays."""
    return struct.pack(">I", len(data)) + data


def entry(key: str, kind: bytes, value: bytes) -> bytes:
    """Return one entry of a header table; *kind* is AMQP's letter."""
    return encode.short_string(key) + kind + value


async def send(url: str, messages: Iterable[Raw], every_s: float) -> None:
    """Publish *messages*, one each *every_s* seconds; return when the broker has taken all."""
    connection = await connect(url)
    try:
        channel = await connection.channel(publisher_confirms=False)
        loop, start = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        size = channel.max_content_size  # type: ignore[attr-defined]  # of the library's own channel
        for number, message in enumerate(messages):
            frames = message.frames(channel.number, size)
            await asyncio.sleep(max(0.0, start + number * every_s - loop.time()))
            await connection.write_queue.put(ChannelFrame(payload=frames, should_close=False))
        await channel.basic_qos(prefetch_count=1, timeout=60)  # answered behind all that was written
    finally:
        await asyncio.wait_for(connection.close(), 10)
