"""Turns of one queue: few publishes on each channel, in order, and none is forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from consumer.edges.broker.destinations import CHANNELS, MOST, TRIAL_S, Destination

ALL = CHANNELS * MOST


async def _settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


@given(st.lists(st.integers(0, 9), max_size=60))
def test_a_busy_queue_takes_spare_channels(leaving: list[int]) -> None:
    """Fault 96: a channel has fewer than the broker reads past, and waiters enter in their order."""

    async def run() -> None:
        to, inside, entered = Destination("q"), list[int](), list[int]()

        async def publish(number: int) -> None:
            inside.append(await to.enter(0.0))
            entered.append(number)

        tasks = [asyncio.create_task(publish(number)) for number in range(ALL + len(leaving))]
        await _settle()
        assert Counter(inside) == dict.fromkeys(range(CHANNELS), MOST)
        for which in leaving:
            to.leave(inside.pop(which * 7 % len(inside)), 0.0)
            await _settle()
            assert max(Counter(inside).values()) <= MOST
        assert all(task.done() for task in tasks)
        assert entered == list(range(ALL + len(leaving)))
        assert sum(to.taken) == len(inside) == ALL

    asyncio.run(run())


async def test_a_quiet_queue_uses_only_the_first_channel() -> None:
    """Spare channels cost something only where they are needed."""
    to = Destination("q")

    numbers = [await to.enter(0.0) for _ in range(MOST)]

    assert set(numbers) == {0}
    to.leave(0, 0.0)
    assert await to.enter(0.0) == 0


async def test_a_cancelled_waiter_gives_its_turn_to_the_next() -> None:
    """Whether it is cancelled before or after its turn came."""
    to = Destination("q")
    for _ in range(ALL):
        await to.enter(0.0)
    first, second, third = (asyncio.create_task(to.enter(0.0)) for _ in range(3))
    await _settle()

    first.cancel()
    to.leave(0, 0.0)
    await _settle()
    assert second.result() == 0
    to.leave(1, 0.0)
    third.cancel()  # its turn has come already
    await _settle()

    assert third.cancelled()
    assert to.taken == [MOST, MOST - 1, *[MOST] * (CHANNELS - 2)]


async def test_a_queue_in_doubt_is_tried_by_one() -> None:
    """The others wait until it has confirmed again, on whichever channel they were before."""
    to = Destination("q")
    for _ in range(MOST + 1):
        await to.enter(0.0)
    to.doubt(0.0)
    trials = [asyncio.create_task(to.enter(TRIAL_S)) for _ in range(2)]
    await _settle()
    assert not any(trial.done() for trial in trials)

    for number in (*[0] * MOST, 1):
        to.leave(number, TRIAL_S)
    await _settle()
    assert [trial.done() for trial in trials] == [True, False]
    to.answered(TRIAL_S)
    await _settle()

    assert trials[1].result() == 0
