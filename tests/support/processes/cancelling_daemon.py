"""``leveret run`` in which each SIGUSR1 cancels the next of the named tasks, as a bug would.

Run ``python -m tests.support.processes.cancelling_daemon NAME...``.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

import uvloop

from consumer.daemon.build import Run, Worker
from consumer.daemon.life import Life
from consumer.edges.management.reach import reach_broker
from consumer.edges.process import logs
from consumer.settings import load_settings

PROGRAM = ("-m", "tests.support.processes.cancelling_daemon")


def cancel_next(names: list[str]) -> None:
    """Cancel the tasks with the next name."""
    name = names.pop(0)
    for task in asyncio.all_tasks():
        if task.get_name() == name:
            task.cancel()


async def serve(names: Sequence[str]) -> int:
    """Run a worker until a signal; return its exit code."""
    settings = load_settings()
    logs.configure(settings.log.level, settings.log.format)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, cancel_next, list(names))
    reach = await asyncio.to_thread(reach_broker, settings)
    return await Life(Worker(settings, Run(declare=True), reach)).run()


if __name__ == "__main__":
    sys.exit(uvloop.run(serve(sys.argv[1:])))
