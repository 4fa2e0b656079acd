"""Run the API as a process of its own, until a signal: ``leveret serve``.

So a page never delays a delivery. Data flow: Settings -> RunningApi until SIGTERM or SIGINT -> exit code.
A worker with ``[api] listen`` starts the same process and gives it a socket: consumer/daemon/api_process.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

import uvloop

from consumer.edges.process import logs
from consumer.edges.process.startup import raise_handle_limit
from consumer.settings import Settings
from consumer.web.server import RunningApi


def run(settings: Settings, handle: int | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. A second signal ends the process at once.

    Args:
        settings: Settings of store, broker and API.
        handle: A listening socket of the process that started this one. Its standard output gets a line once
            the API serves, and its standard input ends with the process that started it.

    Raises:
        ConfigError: the API cannot listen.
    """
    logs.configure(settings.log.level, settings.log.format)
    raise_handle_limit()
    listening = None if handle is None else socket.socket(fileno=handle)
    return uvloop.run(_serve(settings, listening))


async def _serve(settings: Settings, listening: socket.socket | None) -> int:
    stopping = asyncio.Event()

    def signalled() -> None:
        if stopping.is_set():
            logs.flush()
            os._exit(1)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    if listening is not None:
        asyncio.get_running_loop().add_reader(sys.stdin, _on_input, stopping)
    api = await RunningApi.start(settings, listening)
    if listening is not None:
        os.write(sys.stdout.fileno(), b"serving\n")
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


def _on_input(stopping: asyncio.Event) -> None:
    """End once standard input does; anything else there is ignored."""
    if not os.read(sys.stdin.fileno(), 1_024):
        asyncio.get_running_loop().remove_reader(sys.stdin)
        stopping.set()
