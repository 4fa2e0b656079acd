"""Own background tasks: report one that ends unexpectedly, and start it again after a growing pause.

Data flow: OwnedTasks.keep(name, step) -> a task -> its unexpected end -> TaskHealth (report, readiness) ->
a pause -> a new task.

No other module may start a task that nobody awaits; see docs/adr/0044-tasks-have-an-owner.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

FIRST_PAUSE_S: Final = 0.2  #: before the first restart of a task; each further one waits twice as long
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 10.0  #: a task that has run for so long since its restart counts as well
RECANCEL_S: Final = 0.2

Step: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class TaskEnded(RuntimeError):
    """A task ended without an error, although its owner did not end it."""


class TaskReports(Protocol):
    """Takes what happens to tasks."""

    def task_failed(self, task: str, error: BaseException) -> None:
        """A task ended with an error that nobody expected."""


@dataclass(slots=True)
class Restarts:
    """The pauses before the restarts of a task, or of a process, that ends unexpectedly."""

    pause_s: float = 0.0  #: before its next start
    began_at: float | None = None  #: its last start, in monotonic seconds; None while it waits for one

    def ended(self, now: float) -> float:
        """Return the pause before its next start: twice the last one, or the first if it ran for long."""
        last_s = 0.0 if self.is_over(now) else self.pause_s
        self.pause_s = min(max(FIRST_PAUSE_S, 2 * last_s), LONGEST_PAUSE_S)
        self.began_at = None
        return self.pause_s

    def began(self, now: float) -> None:
        """Note its start."""
        self.began_at = now

    def is_over(self, now: float) -> bool:
        """Return whether it has run long enough since."""
        return self.began_at is not None and now - self.began_at >= STEADY_S


class TaskHealth:
    """Counts the unexpected ends of the tasks of one worker, for its readiness."""

    def __init__(self, observe: TaskReports, now: Callable[[], float] = time.monotonic) -> None:
        """Begin without a trouble.

        Args:
            observe: Logs and counts each unexpected end.
            now: Returns monotonic seconds.
        """
        self._observe = observe
        self._now = now
        self._troubles: dict[str, Restarts] = {}

    def ended(self, name: str, error: BaseException) -> float:
        """Report the unexpected end of a task; return the pause before its next start, in seconds."""
        self._observe.task_failed(name, error)
        return self._troubles.setdefault(name, Restarts()).ended(self._now())

    def began(self, name: str) -> None:
        """Note the start of a task."""
        if name in self._troubles:
            self._troubles[name].began(self._now())

    def unready(self) -> str | None:
        """Return which tasks ended unexpectedly and have not run for :data:`STEADY_S` since, or None."""
        now = self._now()
        for name in [name for name, trouble in self._troubles.items() if trouble.is_over(now)]:
            del self._troubles[name]
        if not self._troubles:
            return None
        return f"a task ended unexpectedly and is started again: {', '.join(self._troubles)}; see the log"


class OwnedTasks:
    """Tasks with one owner, which ends them all in :meth:`end`."""

    def __init__(self, health: TaskHealth, is_over: Callable[[], bool] = lambda: False) -> None:
        """Own no task yet.

        Args:
            health: Takes unexpected ends.
            is_over: Returns whether tasks may end by themselves now, as when their connection has closed.
        """
        self._health = health
        self._is_over = is_over
        self._ending = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts: set[asyncio.TimerHandle] = set()

    def keep(self, name: str, step: Step) -> None:
        """Run *step* in a task, and again whenever it ends, until :meth:`end`."""
        self._start(name, step, lambda pause_s: self._restart_later(name, step, pause_s))

    def run_once(self, name: str, step: Step, on_failure: Callable[[], None]) -> asyncio.Task[None]:
        """Run *step* in a task to its end, and call *on_failure* after an error or a strange cancellation."""
        return self._start(name, step, lambda _pause_s: on_failure(), is_short=True)

    async def end(self) -> None:
        """Cancel every task, and return once all have ended."""
        self._ending = True
        for restart in self._restarts:
            restart.cancel()
        self._restarts.clear()
        await end(list(self._tasks))

    def _start(
        self, name: str, step: Step, failed: Callable[[float], None], *, is_short: bool = False
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(step(), name=name)
        self._tasks.add(task)
        if not is_short:
            self._health.began(name)

        def done(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = error_of(task)
            if not (self._ending or self._is_over() or (is_short and error is None)):
                failed(self._health.ended(name, error or TaskEnded("the task returned")))

        task.add_done_callback(done)
        return task

    def _restart_later(self, name: str, step: Step, pause_s: float) -> None:
        def restart() -> None:
            self._restarts.discard(timer)
            self.keep(name, step)

        timer = asyncio.get_running_loop().call_later(pause_s, restart)
        self._restarts.add(timer)


def error_of(task: asyncio.Future[Any]) -> BaseException | None:
    """Return the error of an ended task, :class:`TaskEnded` if it was cancelled; None if it returned."""
    return TaskEnded("the task was cancelled") if task.cancelled() else task.exception()


async def until_one_ends(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until one of *tasks* ends, in whatever way, and end the others.

    Raises:
        Exception: the error of the task.
        TaskEnded: it was cancelled by another one, or returned.
    """
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(tasks)
    for task in ended:
        raise error_of(task) or TaskEnded(f"{task.get_name()}: the task returned")


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel *tasks* until each has ended.

    Cancelling once is not enough. A call of the AMQP library that is cancelled while its connection closes
    raises the connection's error instead, and a loop that continues after errors would then continue.

    A caller that is cancelled meanwhile, as by an owner of its own, gets the cancellation after that:
    otherwise *tasks* would go on without an owner.
    """
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=RECANCEL_S)
        except asyncio.CancelledError as error:
            cancelled = error
    await asyncio.gather(*tasks, return_exceptions=True)
    if cancelled is not None:
        raise cancelled
