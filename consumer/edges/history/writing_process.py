"""Write the history in a child process: a write costs the worker's loop little more than a copy of the rows.

Data flow: :class:`.history_writer.HistoryWriter` -> :class:`WritingProcess` -> :mod:`.writing_child`.

In a thread of the worker, SQLite copies each value while it holds the interpreter's lock. The child starts
with the first request. After its end one request fails, and the next one starts another child. The store
notes the number of each batch, so a batch that the ended child had written is not written again. Decision 53.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.edges.history.history_store import Limits
from consumer.edges.history.writing_child import SIGNALS, Opening, Reply, Request, Trim, Write

END_S: Final = 10.0  #: longest time in which a child may end by itself


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    connection: Connection


class WritingProcess:
    """Implements :class:`.history_store.HistoryTarget`."""

    def __init__(self, home: Path, busy_timeout_s: float, environment: Mapping[str, str]) -> None:
        """Bind to a folder; nothing is started before the first request.

        Args:
            home: The state folder.
            busy_timeout_s: Longest wait for another writer.
            environment: Variables of the child, with which it finds this package.
        """
        self._opening = Opening(home, busy_timeout_s, secrets.token_hex(8))
        self._environment = environment
        blocked = (signal.SIG_BLOCK, SIGNALS)  #: in this thread, and in the child while it starts
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="history", initializer=signal.pthread_sigmask, initargs=blocked
        )
        self._child: _Child | None = None
        self._is_closed = False

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Let the child write a batch.

        A request that is cancelled after it has begun ends in the thread all the same.
        """
        await self._in_thread(Write(number, batch))

    async def trim(self, limits: Limits, now: float) -> bool:
        """Let the child delete old rows."""
        return await self._in_thread(Trim(limits, now))

    async def close(self) -> None:
        """Let the child close the history and end; kill it if this is cancelled."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        finally:
            self._is_closed = True
            self._thread.shutdown(wait=False)
            child = self._child
            if child is not None:
                child.process.kill()  # the thread waits for it

    async def _in_thread(self, request: Request) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, request)

    def _ask(self, request: Request) -> bool:
        """Pass on a request and return its answer.

        Raises:
            StoreUnavailable: as the request; or the child ended, or cannot be started.
            ValueError: as the request.
        """
        try:
            if self._child is None:
                self._child = self._start()
                if self._is_closed:  # meanwhile
                    self._child.process.kill()
                self._child.connection.send(self._opening)
            self._child.connection.send(request)
            reply: Reply = self._child.connection.recv()
        except (EOFError, OSError) as error:
            end = _end_of(self._end())
            raise StoreUnavailable(
                f"the process that writes the history {end}; the next write starts another one"
            ) from error
        if reply.error is not None:
            raise reply.error
        return reply.more

    def _start(self) -> _Child:
        """Start a child.

        Raises:
            StoreUnavailable: it cannot be started.
        """
        ours, theirs = socket.socketpair()
        with closing(ours), closing(theirs):
            handle = theirs.fileno()
            try:
                process = subprocess.Popen(  # noqa: S603 (argv is built here)
                    [sys.executable, "-P", "-m", "consumer.edges.history", str(handle)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                    pass_fds=(handle,),
                    process_group=0,  # Ctrl-C is for this process
                )
            except OSError as error:
                raise StoreUnavailable(
                    f"the process that writes the history cannot be started: {error}; let the worker start "
                    "processes"
                ) from error
            return _Child(process, Connection(ours.detach()))

    def _end(self) -> int | None:
        """Close the connection, wait for the child's end, and return its exit code."""
        child = self._child
        if child is None:
            return None
        child.connection.close()
        try:
            child.process.wait(END_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
        code = child.process.wait()
        self._child = None
        return code


def _end_of(code: int | None) -> str:
    """Return how a process with this exit code ended, and what may be done."""
    if code is not None and code < 0:
        return f"was ended by signal {-code}: see whether the kernel killed it for want of memory"
    return f"ended with exit code {code}: see that its files are those of the running worker"
