"""Write the history in a process of its own: the child of :mod:`.writing_process`, and their messages.

The child ends when its connection does: with the worker, however the worker ends. What the worker has sent
until then is written all the same, unless the worker is the first process of a container: the kernel ends all
others with it. Signals are for the worker, which ends the child after its drain.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from consumer.core.errors import LeveretError, StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.edges.history.history_store import HistoryTarget, Limits
from consumer.edges.history.sqlite_history import SqliteHistory
from consumer.edges.process.startup import forbid_core_dumps

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The child ignores them. The thread that starts it blocks them: so does the child until it ignores them."""


class Opening(NamedTuple):
    """The first message to a child: the arguments of :class:`SqliteHistory`."""

    home: Path
    busy_timeout_s: float
    writer: str


class Write(NamedTuple):
    """Ask for :meth:`HistoryTarget.write`."""

    number: int
    batch: HistoryBatch


class Trim(NamedTuple):
    """Ask for :meth:`HistoryTarget.trim`."""

    limits: Limits
    now: float  #: Unix seconds


Request: TypeAlias = Write | Trim


class Reply(NamedTuple):
    """The answer to a request."""

    more: bool = False  #: what :meth:`HistoryTarget.trim` returned
    error: Exception | None = None  #: what it raised; another error than its own ones is a RuntimeError


async def serve(connection: Connection) -> None:
    """Answer requests until the connection ends, then close the history."""
    history: HistoryTarget | None = None
    try:
        while True:
            message: Opening | Request = connection.recv()
            if isinstance(message, Opening):
                history = SqliteHistory(*message)
            elif history is not None:
                connection.send(await _reply(history, message))
    except (EOFError, OSError):
        pass  # the worker ended
    except Exception as error:  # a new version was installed beside a running worker
        fault = (
            f"the process that writes the history cannot read its requests: {type(error).__name__}: {error}"
        )
        connection.send(Reply(error=StoreUnavailable(f"{fault}; restart the worker")))
    finally:
        if history is not None:
            await history.close()


async def _reply(history: HistoryTarget, request: Request) -> Reply:
    try:
        return Reply(more=await _answer(history, request))
    except (LeveretError, ValueError, OSError) as error:
        return Reply(error=error)
    except Exception as error:  # a bug must not end the child: it would be started for each batch
        return Reply(error=RuntimeError(f"{type(error).__name__}: {error}"))


async def _answer(history: HistoryTarget, request: Request) -> bool:
    match request:
        case Write(number=number, batch=batch):
            await history.write(number, batch)
            return False
        case Trim(limits=limits, now=now):
            return await history.trim(limits, now)


def main() -> None:
    """Serve the connection whose handle is the only argument of the command line."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    forbid_core_dumps()
    asyncio.run(serve(Connection(int(sys.argv[1]))))
