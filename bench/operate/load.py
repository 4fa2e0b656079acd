"""Send API requests at a steady rate with little CPU: the worker shares the machine."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

CONNECTIONS = 4
RETRY_S = 0.05  #: pause after a refused connection: the API may not listen yet


@dataclass(slots=True)
class ApiLoad:
    """A steady load on one API.

    Attributes:
        statuses: Answers by their status.
        late: Requests that began over a second after their time, as all connections were busy.
        began: Monotonic time of the first answer; 0 before it.
        ended: Monotonic time of the last answer.
    """

    port: int
    token: str
    paths: Sequence[str]
    rate_per_s: float
    statuses: Counter[int] = field(default_factory=Counter)
    late: int = 0
    began: float = 0.0
    ended: float = 0.0

    @property
    def achieved_per_s(self) -> float:
        """Answers a second between the first and the last one."""
        return (self.statuses.total() - 1) / max(0.001, self.ended - self.began)

    @property
    def is_right(self) -> bool:
        """Whether all answers were 200, and came at nine tenths of the wanted rate at least."""
        return set(self.statuses) == {200} and self.achieved_per_s >= 0.9 * self.rate_per_s

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the load up."""
        turns = itertools.count()
        tasks = [asyncio.create_task(self._connection(turns)) for _ in range(CONNECTIONS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _connection(self, turns: itertools.count[int]) -> None:
        """Send a share of the requests over one connection, which is opened again after a loss."""
        due = time.monotonic()
        while True:
            with suppress(OSError, EOFError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    due = time.monotonic()
                    while True:
                        await asyncio.sleep(due - time.monotonic())
                        due = self._next(due)
                        writer.write(self._request(self.paths[next(turns) % len(self.paths)]))
                        self._count(await _status(reader))
                finally:
                    writer.close()
            await asyncio.sleep(RETRY_S)

    def _next(self, due: float) -> float:
        """Return the time of the next request after *due*; a lag of over a second is not made up for."""
        now, step = time.monotonic(), CONNECTIONS / self.rate_per_s
        if now - due > 1.0:
            self.late += 1
            return now + step
        return due + step

    def _request(self, path: str) -> bytes:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        return head.encode()

    def _count(self, status: int) -> None:
        self.ended = time.monotonic()
        self.began = self.began or self.ended
        self.statuses[status] += 1


async def _status(reader: asyncio.StreamReader) -> int:
    """Read one answer with a Content-Length and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    lengths = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")]
    await reader.readexactly(lengths[0] if lengths else 0)
    return int(lines[0].split(b" ", 2)[1])
