"""Serve the HTTP API beside a worker, in a child process: requests take no turns of the worker's loop.

Data flow: Settings -> socket -> child: ``leveret serve`` on that socket -> its log lines -> our log.

The socket is ours, so that a client that comes before the child serves, or between two children, only waits.
The child writes a line to its standard output once it serves. It ends when its standard input does: with this
process, however this process ends. Each child gets the worker's section ``[api]``: a file that was changed
since cannot give the socket other rules, such as plain HTTP on a public address.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import structlog

from consumer.core.text.hosts import url_of
from consumer.edges.process import logs
from consumer.settings import Settings
from consumer.settings.load import child_environment
from consumer.tasks import Restarts, end
from consumer.web.listening import check_certificate, listen

START_S: Final = 10.0  #: longest wait for the first child; deliveries matter more than requests
STOP_S: Final = 15.0  #: seconds in which a child may end its requests; see consumer.web.server
Started: TypeAlias = Callable[[], Awaitable[None]]
"""Called each time that a child serves."""

LINE_BYTES: Final = 262_144  #: a longer line of the child is passed on in parts
_READ_BYTES: Final = 65_536


class ApiProcess:
    """The child that serves the API, and a new one whenever it ends."""

    def __init__(
        self, settings: Settings, listening: socket.socket, stopping: asyncio.Event, started: Started
    ) -> None:
        """Start the first child.

        Args:
            settings: Settings of the worker.
            listening: Socket of the API; it is closed by :meth:`stop`.
            stopping: Set once this worker ends; from then on the child may end.
            started: Called each time that a child serves.
        """
        host, _ = settings.api.place()
        port = int(listening.getsockname()[1])
        self.url = url_of("https" if settings.api.uses_tls else "http", host, port)
        self._values = json.dumps(settings.api.model_dump(mode="json"))
        self._socket = listening
        self._stopping = stopping
        self._started = started
        self._child: Process | None = None
        self._is_serving = asyncio.Event()  #: since the first child serves
        self._keeping = asyncio.create_task(self._keep(), name="api process")

    @classmethod
    def start(cls, settings: Settings, stopping: asyncio.Event, started: Started) -> ApiProcess:
        """Listen on the address of the settings, and start the child that serves it.

        Raises:
            ConfigError: the address is taken or not of this machine, or a certificate cannot be used.
        """
        check_certificate(settings.api)
        return cls(settings, listen(settings.api), stopping, started)

    async def serving(self) -> None:
        """Return once the API serves, or after :data:`START_S`: no client waits behind the first events."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_serving.wait(), START_S)

    async def stop(self) -> None:
        """Let the child end its requests, and wait for its end."""
        self._stopping.set()
        self._socket.close()  # the child has the last copy: once it closes it, nothing is accepted
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.terminate()
            await asyncio.wait({self._keeping}, timeout=STOP_S)
        await end([self._keeping])  # it kills a child that still runs

    async def _keep(self) -> None:
        """Run one child after the other until the worker stops."""
        loop, restarts = asyncio.get_running_loop(), Restarts()
        while not self._stopping.is_set():
            restarts.began(loop.time())
            try:
                code: int | str = await self._serve()
            except Exception as error:  # whatever ended this child, another one follows
                code = f"{type(error).__name__}: {error}"
            with suppress(TimeoutError):  # a signal to all processes may end the child first
                await asyncio.wait_for(self._stopping.wait(), restarts.ended(loop.time()))
                break
            structlog.get_logger().error("api.ended", code=code)
        self._socket.close()  # a client must not wait for a child that never comes

    async def _serve(self) -> int:
        """Run one child to its end, and return its exit code.

        Raises:
            OSError: it cannot be started.
        """
        child = self._child = await self._start_child()
        try:
            if self._stopping.is_set():  # it was set while the child started
                child.terminate()
            if child.stdout is not None and await child.stdout.readline():
                self._is_serving.set()
                await self._started()
            if child.stderr is not None:
                await _pass_on(child.stderr)
            return await child.wait()
        finally:
            self._child = None
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()

    async def _start_child(self) -> Process:
        handle = self._socket.fileno()
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "consumer", "serve"),
            *("--socket", str(handle), "--api", self._values),
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if logs.may_share_stream() else PIPE,
            env=child_environment(),
            pass_fds=(handle,),
            start_new_session=True,  # Ctrl-C is for this process, which ends the child after its drain
        )


async def _pass_on(lines: asyncio.StreamReader) -> None:
    """Write the lines of a child to our log: two processes at one pipe would cut each other's lines."""
    rest = b""
    while part := await lines.read(_READ_BYTES):
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            logs.pass_on(line)
        if len(rest) > LINE_BYTES:
            logs.pass_on(rest)
            rest = b""
    if rest:
        logs.pass_on(rest)
