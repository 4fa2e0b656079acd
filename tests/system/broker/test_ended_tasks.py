"""Fault 98: tasks of a running daemon that are cancelled, as by a bug or by the AMQP library."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.cancelling_daemon import PROGRAM
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

SIDE = ("window lane", "window due", "control", "repair", "sizes", "quorum", "confirms")


def cancelling(folder: Path, url: str, *names: str) -> Daemon:
    """Return a daemon of which each :func:`cancel` cancels the next of the named tasks."""
    daemon = Daemon(folder, url, {"LEVERET_TOPOLOGY__DUE_QUEUES": "3"})
    daemon.program = (*PROGRAM, *names)
    return daemon


def cancel(daemon: Daemon) -> None:
    """Cancel the next task."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGUSR1)


def has_failed(daemon: Daemon, times: int) -> bool:
    """Return whether so many ends are in the log."""
    return daemon.count("task.failed") == times


async def test_a_side_task_that_ends_is_started_again(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Each is logged, counted and started again; readiness is red until all have run for 10 s."""
    async with cancelling(tmp_path, vhost, *SIDE) as daemon:
        await daemon.apply(to(receiver, "/ok/tasks", "tasks"))
        await daemon.start()
        for count, name in enumerate(SIDE, 1):
            cancel(daemon)
            await until(partial(has_failed, daemon, count), f"{name} ended")
            assert daemon.unready() != ""

        ended = f"a task ended unexpectedly and is started again: {SIDE[0]}"
        await until(lambda: ended in daemon.unready(), "/readyz names the tasks")
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert [line["task"] for line in daemon.lines("task.failed")] == list(SIDE)
        for name, count in (("control", 1), ("sizes", 1), ("window", 2), ("confirms", 1)):
            assert daemon.metric("leveret_task_failures_total", task=name) == count
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("tasks")
        await all_delivered(receiver, "/ok/tasks", [event_id])
        assert await daemon.stop() == 0
        assert daemon.count("task.failed") == len(SIDE)


async def test_the_first_signal_after_an_ended_routine_lets_requests_end(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """A deploy meets a worker that drains already: its SIGTERM is not a second one."""
    target = "/slow/ended?s=3"
    async with cancelling(tmp_path, vhost, "sharing") as daemon:
        await daemon.apply(to(receiver, target, "ended"))
        await daemon.start()
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("ended")
        await receiver.arrived(1)
        cancel(daemon)
        await until(partial(has_failed, daemon, 1), "the routine ended")
        daemon.terminate()

        assert await daemon.wait_exit(60) == 1
        assert daemon.count("daemon.forced") == 0
        await all_delivered(receiver, target, [event_id])


@pytest.mark.parametrize("routine", ["sharing", "broker", "publishing connection"])
async def test_a_routine_that_ends_cancelled_gives_exit_code_1(
    vhost: str, tmp_path: Path, routine: str
) -> None:
    """The service manager starts the worker again; before, it took the end for a wanted one."""
    async with cancelling(tmp_path, vhost, routine) as daemon:
        await daemon.start()
        cancel(daemon)

        assert await daemon.wait_exit(60) == 1
        assert daemon.count("task.failed") >= 1
        assert daemon.count("daemon.stopped") == 1
