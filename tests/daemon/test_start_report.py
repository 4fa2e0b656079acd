"""No start is silent: each step that lasts is reported, and the end of the start with its URLs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from consumer.daemon.start_report import PAUSE_MAX_S, SLOW_S, StartReport
from tests.support.fakes import RecordingLog, run_virtually

URLS = {"health": "http://127.0.0.1:80/readyz", "metrics": "http://127.0.0.1:80/metrics"}


def started(reasons: list[tuple[str, float]]) -> RecordingLog:
    """Run a start in which the worker is not ready for each reason in turn, for so many seconds."""
    log = RecordingLog()

    def unready() -> str | None:
        left_s = asyncio.get_running_loop().time()
        for reason, lasts_s in reasons:
            if left_s < lasts_s:
                return reason
            left_s -= lasts_s
        return None

    async def main() -> None:
        loop = asyncio.get_running_loop()
        running = asyncio.create_task(StartReport(log, loop.time).run(unready, URLS))
        await until(lambda: bool(log.events("daemon.ready")))
        assert not running.done()
        running.cancel()

    run_virtually(main)
    return log


async def until(holds: Callable[[], bool]) -> None:
    """Let time pass until a condition holds."""
    while not holds():  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.05)


def waits(log: RecordingLog) -> list[tuple[object, int]]:
    """Return reason and whole seconds of each report."""
    return [
        (line["reason"], int(str(line["waited_s"]).split(".")[0])) for line in log.events("daemon.waiting")
    ]


def test_a_fast_start_is_one_line() -> None:
    """With the URLs, and the seconds that it took."""
    log = started([("the topology is not declared yet", SLOW_S / 2)])

    assert waits(log) == []
    [ready] = log.events("daemon.ready")
    assert ready.pop("after_s") == pytest.approx(SLOW_S / 2, abs=0.2)
    assert ready == URLS


def test_each_step_that_lasts_is_reported() -> None:
    """A step that was fast is left out, also between slow ones."""
    log = started([("declares", 3.0), ("loads", 1.0), ("opens windows", 2.5)])

    assert waits(log) == [("declares", 2), ("opens windows", 2)]


def test_reports_of_one_step_become_rare() -> None:
    """Pauses double up to a minute, so a broker that is away for hours fills no log."""
    log = started([("no broker", 250.0)])

    times = [seconds for _, seconds in waits(log)]
    pauses = [after - before for before, after in pairwise(times)]
    assert times[:4] == [2, 6, 14, 30]
    assert max(pauses) <= PAUSE_MAX_S + 1


def test_a_step_before_the_worker_is_reported_while_it_lasts() -> None:
    """Such as the start of the private broker; its result and its error come through."""
    log = RecordingLog()

    async def work() -> str:
        await asyncio.sleep(31.0)
        return "ready"

    async def fail() -> str:
        await asyncio.sleep(1.0)
        raise OSError("no server")

    async def main() -> str:
        start = StartReport(log, asyncio.get_running_loop().time)
        with pytest.raises(OSError, match="no server"):
            await start.step("the other broker is starting", fail())
        return await start.step("the broker is starting", work())

    assert run_virtually(main) == "ready"
    assert waits(log) == [("the broker is starting", seconds) for seconds in (2, 6, 14, 30)]
