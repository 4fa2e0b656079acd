"""Tasks that end unexpectedly: reported, started again after growing pauses, and unready until they last."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.tasks import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    STEADY_S,
    OwnedTasks,
    TaskEnded,
    TaskHealth,
    end,
    error_of,
    until_one_ends,
)


class Reports:
    """Keeps the reported ends."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, BaseException]] = []

    def task_failed(self, task: str, error: BaseException) -> None:
        """Keep one."""
        self.failed.append((task, error))


def health(reports: Reports) -> TaskHealth:
    """The health of a worker, on the time of the loop."""
    return TaskHealth(reports, asyncio.get_running_loop().time)


class Looper:
    """A step that runs until a test ends it."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.task: asyncio.Task[None] | None = None
        self.started = asyncio.Event()
        self._fault: asyncio.Future[None]

    async def run(self) -> None:
        """Run until :meth:`fail`, or a cancellation."""
        loop = asyncio.get_running_loop()
        self.starts.append(loop.time())
        self.task = asyncio.current_task()
        self._fault = loop.create_future()
        self.started.set()
        await self._fault

    def fail(self, error: BaseException | None) -> None:
        """End with *error*; None returns."""
        self.started.clear()
        if error is None:
            self._fault.set_result(None)
        else:
            self._fault.set_exception(error)


@pytest.mark.parametrize("how", ["error", "cancelled by another task", "cancelled future", "returned"])
async def test_a_task_that_ends_unexpectedly_is_started_again(how: str) -> None:
    """Fault 98: whatever ended it is reported; the worker is unready until the task has lasted."""
    reports, looper = Reports(), Looper()
    of = health(reports)
    tasks = OwnedTasks(of)
    tasks.keep("sizes", looper.run)
    await asyncio.sleep(1)
    assert of.unready() is None

    if how == "error":
        looper.fail(ValueError("a bug"))
    elif how == "returned":
        looper.fail(None)
    elif how == "cancelled future":
        looper._fault.cancel()
    else:
        assert looper.task is not None
        looper.task.cancel()
    await asyncio.sleep(FIRST_PAUSE_S / 2)

    [(name, error)] = reports.failed
    assert (name, type(error)) == ("sizes", ValueError if how == "error" else TaskEnded)
    assert len(looper.starts) == 1
    assert "sizes" in (of.unready() or "")
    await asyncio.sleep(FIRST_PAUSE_S)
    assert len(looper.starts) == 2
    assert of.unready() is not None
    await asyncio.sleep(STEADY_S)
    assert of.unready() is None
    await tasks.end()
    assert len(reports.failed) == 1


async def test_pauses_grow_and_begin_anew_after_a_task_lasted() -> None:
    """A task that always fails costs little, and one that failed long ago is started at once."""
    reports, looper = Reports(), Looper()
    tasks = OwnedTasks(health(reports))
    tasks.keep("control", looper.run)
    for _ in range(10):
        await asyncio.sleep(0)
        ends_at = asyncio.get_running_loop().time()
        looper.fail(RuntimeError("again"))
        await looper.started.wait()
    assert looper.starts[-1] - ends_at == pytest.approx(LONGEST_PAUSE_S, abs=0.2)

    await asyncio.sleep(STEADY_S)
    ends_at = asyncio.get_running_loop().time()
    looper.fail(RuntimeError("again"))
    await asyncio.sleep(1)

    assert looper.starts[-1] - ends_at == pytest.approx(FIRST_PAUSE_S, abs=0.05)
    await tasks.end()


async def test_the_end_by_the_owner_is_no_failure() -> None:
    """Neither a task that is ended nor one that waits for its restart runs on; nothing is reported."""
    reports, looper, failing = Reports(), Looper(), Looper()
    tasks = OwnedTasks(health(reports))
    tasks.keep("repair", looper.run)
    tasks.keep("control", failing.run)
    await asyncio.sleep(0.1)
    failing.fail(ValueError("a bug"))
    await asyncio.sleep(0.1)

    await tasks.end()
    await asyncio.sleep(60)

    assert [name for name, _ in reports.failed] == ["control"]
    assert (len(looper.starts), len(failing.starts)) == (1, 1)


async def test_an_owner_that_is_ended_itself_leaves_no_task() -> None:
    """A task that needs longer to end than its owner gets is ended before its owner."""

    async def slow() -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    task = asyncio.create_task(slow())
    owner = asyncio.create_task(until_one_ends([task]))
    await asyncio.sleep(0)

    await end([owner])

    assert task.done()
    assert owner.cancelled()


async def test_a_task_may_end_with_what_it_works_on() -> None:
    """The end of a connection ends its tasks in any way, and starts none again."""
    reports, looper = Reports(), Looper()
    is_closed = False
    tasks = OwnedTasks(health(reports), lambda: is_closed)
    tasks.keep("window lane", looper.run)
    await asyncio.sleep(0.1)
    is_closed = True

    looper.fail(ConnectionResetError("closed"))
    await asyncio.sleep(60)

    assert (reports.failed, len(looper.starts)) == ([], 1)


@pytest.mark.parametrize("error", [None, ValueError("a bug"), asyncio.CancelledError()])
async def test_a_short_task_may_return_but_not_fail(error: BaseException | None) -> None:
    """Its failure is reported, and its owner learns of it."""
    reports, looper, failures = Reports(), Looper(), list[str]()
    tasks = OwnedTasks(health(reports))
    task = tasks.run_once("window due", looper.run, lambda: failures.append("failed"))
    await asyncio.sleep(0.1)

    if isinstance(error, asyncio.CancelledError):
        task.cancel()
    else:
        looper.fail(error)
    await asyncio.sleep(1)

    expected = 0 if error is None else 1
    assert (len(reports.failed), len(failures), len(looper.starts)) == (expected, expected, 1)
    assert (error_of(task) is None) == (error is None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 20)), max_size=60))
def test_the_worker_is_ready_exactly_when_each_task_has_lasted(steps: list[tuple[str, bool, float]]) -> None:
    """Fault 98: for any order of ends and starts; and a pause is never outside its bounds."""
    now = 0.0
    of = TaskHealth(Reports(), lambda: now)
    waiting = dict[str, float | None]()  # since when each task that ended runs again
    for name, ends, passed_s in steps:
        now += passed_s
        if ends:
            assert FIRST_PAUSE_S <= of.ended(name, ValueError("a bug")) <= LONGEST_PAUSE_S
            waiting[name] = None
        else:
            of.began(name)
            if name in waiting:
                waiting[name] = now
        waiting = {n: at for n, at in waiting.items() if at is None or now - at < STEADY_S}
        assert (of.unready() is None) == (not waiting)
