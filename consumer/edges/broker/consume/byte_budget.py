"""Bound the bytes of the messages in hand, by pausing the reader while there are too many.

Data flow: the connection's reader -> Gate.put (one for each channel) -> ByteBudget.room -> the consumer;
a ticket that is settled, or dropped unsettled -> Gate.release -> ByteBudget -> the reader goes on.

A prefetch counts messages, and a producer chooses their size. So the header of each message, which contains
its size, waits here until the message fits. Meanwhile the connection is not read, and the broker's socket
fills up: back-pressure by TCP. Our heartbeats continue, and the missing ones of the broker are tolerated.

RabbitMQ closes a connection that it cannot write to for 15 to 30 s. So a wait ends after :data:`LONGEST_S`,
and lets :data:`TRICKLE_BYTES` pass.

Source: RabbitMQ "Networking", ``send_timeout``; fault 88.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiormq.connection import Connection
from pamqp.header import ContentHeader

LONGEST_S = 8.0  #: longest time without reading
BEAT_S = 1.0  #: interval at which a wait marks the connection as alive
TRICKLE_BYTES = 256 * 1024  #: bytes that pass after the longest wait, and at least one message
VALUES_BYTES = 256 * 1024  #: memory of the values of a header table beyond their bytes, at most
HEADER_FACTOR = 16  #: bytes in memory for each byte of a table of small values
LAST_FRAME = "_Connection__last_frame_time"  #: attribute by which the library detects a stuck connection


@dataclass(slots=True)
class ByteBudget:
    """The bytes in hand of one worker."""

    limit_bytes: int
    inflated_bytes: int = 0  #: extra charge for a message with a content encoding
    held_bytes: int = 0
    _whole: int = 0  #: complete messages in hand; only those are settled some day
    _lifted: int = 0
    _trickle: int = 0  #: bytes that may still pass
    _waiter: asyncio.Future[None] | None = field(default=None, init=False)

    def cost(self, header_bytes: int, header: ContentHeader) -> int:
        """Return the charge of a message: its body, and its headers as Python values."""
        inflated = self.inflated_bytes if header.properties.content_encoding else 0
        values = min((HEADER_FACTOR - 1) * header_bytes, VALUES_BYTES)
        return int(header.body_size or 0) + header_bytes + values + inflated

    def is_full(self, cost: int = 0) -> bool:
        """Return whether a message of *cost* would have to wait."""
        return self._whole > 0 and self.held_bytes + cost > self.limit_bytes

    def is_over(self) -> bool:
        """Return whether the bytes in hand exceed the bound, as they may after :meth:`lifted`."""
        return self.held_bytes > self.limit_bytes

    def is_waiting(self) -> bool:
        """Return whether a message waits now, and with it all that follow."""
        return self._waiter is not None

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let every message pass meanwhile, as an awaited answer of the broker is behind them."""
        self._lifted += 1
        self._wake()
        try:
            yield
        finally:
            self._lifted -= 1

    async def room(self, cost: int, connection: Connection) -> None:
        """Return once a message of *cost* fits, or must pass."""
        if not self.is_full(cost) or self._lifted:
            return
        if self._trickle > 0:
            self._trickle -= cost
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + LONGEST_S
        try:
            while self.is_full(cost) and not self._lifted:
                if loop.time() >= until:
                    self._trickle = TRICKLE_BYTES - cost
                    break
                self._waiter = loop.create_future()
                await asyncio.wait({self._waiter}, timeout=BEAT_S)
                setattr(connection, LAST_FRAME, loop.time())
        finally:
            self._waiter = None

    def hold(self, cost: int) -> None:
        """Count a message in hand."""
        self.held_bytes += cost

    def completed(self) -> None:
        """Count a message whose last byte has arrived."""
        self._whole += 1

    def give_back(self, cost: int, *, whole: bool) -> None:
        """Stop counting a message."""
        self.held_bytes -= cost
        self._whole -= whole
        self._trickle = 0
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@dataclass(slots=True)
class WindowBytes:
    """The bytes in hand of one window."""

    held: int = 0

    def hold(self, cost: int) -> None:
        """Count a message that is in hand."""
        self.held += cost

    def give_back(self, cost: int) -> None:
        """Count a message that is in hand no more."""
        self.held -= cost
