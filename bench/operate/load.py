"""Send API requests at a steady rate with little CPU: the worker shares the machine.

The load is open: each request begins at its time, whether earlier ones were answered or not.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

RETRY_S = 0.05  #: pause after a request before the API listens
IN_FLIGHT_MAX = 64  #: a request beyond it is not sent
REACHED = 0.9  #: part of the wanted rate that has to be answered

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class ApiLoad:
    """A steady load on one API.

    Attributes:
        statuses: Answers by their status.
        answered: Unix seconds of each answer.
        waits_s: Seconds from each request to its answer.
        unsent: Requests that were not sent, as too many were in flight.
    """

    port: int
    token: str
    paths: Sequence[str]
    rate_per_s: float
    statuses: Counter[int] = field(default_factory=Counter)
    answered: list[float] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    unsent: int = 0
    _free: list[_Connection] = field(default_factory=list)

    def rate_within(self, began: float, ended: float) -> float:
        """Return the answers a second between two times, in Unix seconds."""
        return sum(began <= at <= ended for at in self.answered) / max(0.001, ended - began)

    def is_right(self, began: float, ended: float) -> bool:
        """Return whether all answers were 200, and came nearly at the wanted rate between two times."""
        is_reached = self.rate_within(began, ended) >= REACHED * self.rate_per_s
        return set(self.statuses) == {200} and is_reached

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the load up, from the first answer of the API on."""
        sending = asyncio.create_task(self._send_all())
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            for _, writer in self._free:
                writer.close()

    async def _send_all(self) -> None:
        while not self.answered:
            await self._send(self.paths[0])
            await asyncio.sleep(RETRY_S)
        began, requests = time.monotonic(), set[asyncio.Task[None]]()
        try:
            for number in itertools.count():
                await asyncio.sleep(began + number / self.rate_per_s - time.monotonic())
                if len(requests) >= IN_FLIGHT_MAX:
                    self.unsent += 1
                    continue
                request = asyncio.create_task(self._send(self.paths[number % len(self.paths)]))
                requests.add(request)
                request.add_done_callback(requests.discard)
        finally:
            for request in requests:
                request.cancel()

    async def _send(self, path: str) -> None:
        """Send one request over a free connection, or over a new one."""
        began = time.monotonic()
        with suppress(OSError, EOFError):
            reader, writer = await self._connection()
            try:
                writer.write(self._request(path))
                status = await _status(reader)
            except BaseException:
                writer.close()
                raise
            self._free.append((reader, writer))
            self.statuses[status] += 1
            self.answered.append(time.time())
            self.waits_s.append(time.monotonic() - began)

    async def _connection(self) -> _Connection:
        return self._free.pop() if self._free else await asyncio.open_connection("127.0.0.1", self.port)

    def _request(self, path: str) -> bytes:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        return head.encode()


async def _status(reader: asyncio.StreamReader) -> int:
    """Read one answer with a Content-Length and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
    await reader.readexactly(lengths[0] if lengths else 0)
    return int(lines[0].split(b" ", 2)[1])
