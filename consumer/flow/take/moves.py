"""Move unstarted messages to other queues, or back to their own, a bounded number at a time.

Data flow: Reroute -> Moves.begin -> a task that publishes, confirms and acks. The drain waits for all tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from consumer.core.errors import BrokerUnavailable
from consumer.flow.observe.observer import Observer

MOST_AT_ONCE = 256  #: jobs that are moved at a time


class Moves:
    """The moves that run now."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self.tasks: set[asyncio.Task[None]] = set()

    def room(self) -> int:
        """Return how many more moves may begin."""
        return max(0, MOST_AT_ONCE - len(self.tasks))

    def begin(self, move: Coroutine[Any, Any, None]) -> None:
        """Run *move* in a task of its own."""
        task = asyncio.create_task(self._run(move))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, move: Coroutine[Any, Any, None]) -> None:
        try:
            await move
        except BrokerUnavailable:  # given up: the broker gives the message out again
            return
        except Exception as error:  # a bug: the message stays unsettled and comes again
            self._observe.task_failed("move", error)
