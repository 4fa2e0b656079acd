"""A wire between the daemon and the broker that a test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType

from yarl import URL

from tests.support.system.daemon import Daemon, running


class Wire:
    """A TCP proxy between daemon and broker that can go silent without closing anything."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._old_silent = asyncio.Event()  #: set: earlier connections swallow all bytes
        self._answers_flow = asyncio.Event()  #: cleared: bytes of the broker are held back
        self._answers_flow.set()
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def cut(self) -> None:
        """Swallow all bytes of the present connections, without FIN or RST; later connections work."""
        self._old_silent.set()
        self._old_silent = asyncio.Event()

    def hold_answers(self) -> None:
        """Hold the bytes of the broker back, on every connection."""
        self._answers_flow.clear()

    def let_answers_through(self) -> None:
        """Let the bytes of the broker flow again, the held ones first."""
        self._answers_flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        silent = self._old_silent
        there, away = await asyncio.open_connection(*self._upstream)
        pumps = {
            asyncio.create_task(self._pump(reader, away, silent, None)),
            asyncio.create_task(self._pump(there, writer, silent, self._answers_flow)),
        }
        self._pumps |= pumps
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()
            away.close()
            self._pumps -= pumps

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        silent: asyncio.Event,
        flows: asyncio.Event | None,
    ) -> None:
        try:
            while data := await source.read(65536):
                if silent.is_set():
                    continue
                if flows is not None:
                    await flows.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            return


@asynccontextmanager
async def behind_a_wire(
    tmp_path: Path, url: str, settings: dict[str, str]
) -> AsyncIterator[tuple[Daemon, Wire]]:
    """Run a daemon that reaches the broker through a wire that the test can cut."""
    address = URL(url)
    async with Wire(str(address.host), int(address.port or 5672)) as wire:
        through = str(address.with_port(wire.port))
        async with running(tmp_path, through, settings) as daemon:
            yield daemon, wire
