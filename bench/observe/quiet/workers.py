"""Two workers with one store. An operator replaces them by a deploy, restarts them, or stops one for good."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from bench.observe.quiet.watch import Tower
from tests.support.processes.daemon import Daemon

COUNT = 2
START_S = 300.0  #: longest start on a busy machine
STOP_S = 60.0


class Workers:
    """The workers, which Prometheus scrapes. An async context manager starts and stops them."""

    def __init__(self, folder: Path, amqp_url: str, tower: Tower, settings: Mapping[str, str]) -> None:
        """Prepare; *settings* are those of the first build."""
        self._folder = folder
        self._amqp_url = amqp_url
        self._tower = tower
        self._settings = dict(settings)
        self._made = 0
        self.home = folder / "home"
        self.running: list[Daemon] = []
        self.starts = 0

    async def __aenter__(self) -> Workers:
        self.running = [self._make({}) for _ in range(COUNT)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(daemon.__aexit__() for daemon in self.running))

    @property
    def one(self) -> Daemon:
        """A worker, for commands on the store that all share."""
        return self.running[0]

    async def start(self) -> None:
        """Start all, and let Prometheus scrape them."""
        await asyncio.gather(*(self._start(daemon) for daemon in self.running))
        self.aim()

    def aim(self) -> None:
        """Let Prometheus scrape exactly the present workers."""
        self._tower.aim("leveret", [daemon.listen for daemon in self.running])

    async def restart(self, number: int) -> None:
        """Stop a worker and start it again, at the same address."""
        await self.stop(number)
        await self._start(self.running[number])

    async def replace(self, number: int, settings: Mapping[str, str]) -> None:
        """Stop a worker and start one with other *settings* at another address; see :meth:`aim`."""
        await self.stop(number)
        self.running[number] = self._make(settings)
        await self._start(self.running[number])

    async def stop(self, number: int) -> None:
        """Stop a worker cleanly.

        Raises:
            TimeoutError: it does not end.
        """
        daemon = self.running[number]
        daemon.terminate()
        if await daemon.wait_exit(STOP_S) is None:
            raise TimeoutError(f"a worker does not end within {STOP_S:g} s")

    def _make(self, settings: Mapping[str, str]) -> Daemon:
        self._made += 1
        shared = {"LEVERET_HOME": str(self.home)}
        name = f"worker-{self._made}"
        return Daemon(self._folder, self._amqp_url, self._settings | dict(settings) | shared, name)

    async def _start(self, daemon: Daemon) -> None:
        try:
            await daemon.start()
        except TimeoutError:  # a busy machine
            async with asyncio.timeout(START_S):
                while not await asyncio.to_thread(daemon.ready):  # noqa: ASYNC110 (a port sets no event)
                    await asyncio.sleep(1.0)
        self.starts += 1
