"""Run the API as a process of its own, until a signal: ``leveret serve``.

So a page never delays a delivery. Data flow: Settings -> RunningApi until SIGTERM or SIGINT -> exit code.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import uvloop

from consumer.edges.process import logs
from consumer.edges.process.startup import raise_handle_limit
from consumer.settings import Settings
from consumer.web.server import RunningApi


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. A second signal ends the process at once.

    Raises:
        ConfigError: the API cannot listen.
    """
    logs.configure(settings.log.level, settings.log.format)
    raise_handle_limit()
    return uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    stopping = asyncio.Event()

    def signalled() -> None:
        if stopping.is_set():
            logs.flush()
            os._exit(1)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    api = await RunningApi.start(settings)
    flushing = asyncio.create_task(logs.flush_always())
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait({api.serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if stopping.is_set() else 1
    for task in (waiting, flushing):
        task.cancel()
    await api.stop()
    with suppress(asyncio.CancelledError):
        await flushing
    return code
