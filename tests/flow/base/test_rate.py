"""The rate of one worker: requests over it wait in place, and no second has more."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from consumer.flow.base.rate import Rate
from tests.support.fakes import START
from tests.support.worker import LoopBack, Worker, event_message


def most_in_a_second(reservations: list[float]) -> int:
    """Return the largest number of times within any one second."""
    return max(bisect_left(reservations, at + 1.0) - index for index, at in enumerate(reservations))


def starts(worker: Worker) -> list[float]:
    """Return when requests started, loop time in seconds."""
    return [at for _, at in worker.sender.started]


async def test_jobs_over_the_rate_stay_in_hand() -> None:
    """S1-11: 100 in 60 s as a setting of the worker; nothing is moved, parked or lost."""
    worker = Worker(rate=Rate(100 / 60, burst=1))
    await worker.subscribe("shop")
    for number in range(30):
        worker.offer(event_message(message_id=f"ord-{number}"))

    await worker.clock.advance(10.0)

    assert len(starts(worker)) == pytest.approx(17, abs=1)
    assert worker.intake.unstarted() == 30 - len(starts(worker))
    assert worker.waiting() == []
    await worker.clock.advance(10.0)
    assert len(starts(worker)) == 30


async def test_one_target_a_job_is_never_put_off() -> None:
    """S1-11: single deliveries wait in hand until there is room; the rate is reached and kept."""
    worker = Worker(rate=Rate(50.0, burst=5))
    await worker.subscribe("shop")
    for number in range(300):
        worker.offer(event_message(message_id=f"ord-{number}"))

    await worker.intake.idle()
    await worker.clock.advance(7.0)

    began = starts(worker)
    assert len(began) == 300
    assert most_in_a_second(began) <= 50 + 5
    assert began[-1] <= 6.5
    assert worker.waiting() == []
    assert all(ticket.settles == ["ack"] for ticket in worker.tickets)


async def test_a_wide_event_is_put_off_beyond_the_room() -> None:
    """S1-11: of forty targets those go for which there is room; the others wait without an attempt spent."""
    worker = Worker(rate=Rate(20.0, burst=4))
    loop_back = LoopBack(worker)
    await worker.subscribe_all(*(f"shop{number}" for number in range(40)))

    worker.offer(event_message())
    await loop_back.run_dry()

    began = starts(worker)
    assert len(began) == 40
    assert len({url for url, _ in worker.sender.started}) == 40
    assert most_in_a_second(began) <= 20 + 4
    assert {m.attempts_made for m in worker.waiting()} == {0}


def test_reservations_are_given_out_one_by_one() -> None:
    """S1-11: deferred deliveries come back at the rate, not together."""
    rate = Rate(10.0, burst=1)
    rate.sent(START)

    reservations = [rate.reserve(START) - START for _ in range(3)]

    assert reservations == pytest.approx([0.1, 0.2, 0.3], abs=1e-5)
    assert rate.room(START) == 0
    assert rate.room(START + 0.1001) == 1
