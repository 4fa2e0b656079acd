"""The proof of clock steps: its cases, its own arithmetic, and one case in small against a real daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.loss.clock_steps import CASES, PATIENCE_S, RETRIES, Case, latest_s, run_case, was_set
from bench.loss.shifted import ShiftedClock
from bench.prove import Bench
from bench.sink import Seen
from tests.bench.support.seen import answered


def seen(webhook_id: str, attempt: int, began: float) -> Seen:
    """One request, answered after 10 ms."""
    return answered(began, path="x", event=webhook_id, attempt=attempt, status=503 if attempt == 1 else 200)


def test_the_clock_is_set_in_each_way_by_each_step() -> None:
    """Back and forward by an hour and a day, behind the port and below the process."""
    assert {(case.way, case.step_s) for case in CASES} == {
        (way, step) for way in ("port", "faketime") for step in (-86_400, -3_600, 3_600, 86_400)
    }
    assert len(CASES) == len({case.name for case in CASES}) == 8
    assert RETRIES == 100


def test_the_latest_retry_counts_and_one_that_never_came_most() -> None:
    """Late is after the first answer's end and the wait that was chosen, by the receiver's clock."""
    requests = [seen("a", 1, 10.0), seen("b", 1, 10.0), seen("a", 2, 14.2), seen("b", 2, 14.0)]
    waits = {"a": 4.0, "b": 4.2}

    assert latest_s(requests, waits, 2) == pytest.approx(0.19)
    assert latest_s(requests[:3], waits, 2) == PATIENCE_S
    assert latest_s(requests, {"a": 4.0}, 2) == PATIENCE_S


def test_a_clock_that_was_not_set_is_seen(tmp_path: Path) -> None:
    """A retry that was signed with the real time makes the figure invalid."""
    log = tmp_path / "log"
    log.write_text(
        '{"attempt": 1, "timestamp": "1000", "start": 1000.5}\n'
        '{"attempt": 2, "timestamp": "4604", "start": 1004.5}\n'
    )

    assert was_set(log, 3_600)
    assert not was_set(log, -3_600)
    assert not was_set(log, 0)


def test_the_shifted_clock_follows_its_file(tmp_path: Path) -> None:
    """It is set while it runs; the monotonic clock is not."""
    file = tmp_path / "offset"
    file.write_text("+0\n")
    clock = ShiftedClock(file)
    before, steady = clock.now(), clock.monotonic()

    file.write_text("-3600\n")

    assert -3_600 <= clock.now() - before < 0
    assert clock.monotonic() >= steady


async def test_a_clock_that_is_set_back_in_small(tmp_path: Path, vhost: str) -> None:
    """Fault 82: a real daemon behind the clock port: its retries come in seconds, not in an hour."""
    bench = Bench(folder=tmp_path, amqp_url=vhost)

    found = await run_case(bench, Case("port", -3_600), 10)

    assert found.set_right
    assert found.parked == 0
    assert found.late_s < PATIENCE_S
