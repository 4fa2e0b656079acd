"""Turns are bounded, in order, and none is kept for long while others wait."""

from __future__ import annotations

import asyncio

from consumer.flow.base.turns import KEPT_S, Turns
from tests.support.fakes import run_virtually, settled


def test_no_more_turns_than_allowed_and_in_order() -> None:
    """Each waits for its turn; a cancelled one passes it on."""

    async def main() -> None:
        turns, done = Turns(2), list[int]()
        most = 0

        async def work(number: int) -> None:
            nonlocal most
            async with turns.turn():
                most = max(most, turns.under_way())
                await asyncio.sleep(0.1)
                done.append(number)

        tasks = [asyncio.create_task(work(number)) for number in range(10)]
        await settled()
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert done == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert most == 2
        assert turns.under_way() == 0

    run_virtually(main)


def test_a_turn_that_is_kept_for_long_goes_to_the_next() -> None:
    """Publishes that wait for a stuck queue delay the others by a moment only (fault 96)."""

    async def main() -> None:
        turns, stuck, at = Turns(4), asyncio.Event(), list[float]()

        async def wait_for_stuck_queue() -> None:
            async with turns.turn():
                await stuck.wait()

        async def work() -> None:
            async with turns.turn():
                at.append(asyncio.get_running_loop().time())

        waiting = [asyncio.create_task(wait_for_stuck_queue()) for _ in range(4)]
        await settled()
        await asyncio.gather(*(work() for _ in range(20)))

        assert max(at) <= KEPT_S + 0.01
        stuck.set()
        await asyncio.gather(*waiting)
        assert turns.under_way() == 0
        await work()

    run_virtually(main)


def test_cancelled_waiters_lose_no_turn() -> None:
    """Whether they were called or not."""

    async def main() -> None:
        turns = Turns(1)
        async with turns.turn():
            waiting = [asyncio.create_task(_use(turns)) for _ in range(3)]
            await settled()
        waiting[0].cancel()  # it was called in the line above
        await asyncio.gather(*waiting, return_exceptions=True)

        await asyncio.wait_for(_use(turns), 1)

    run_virtually(main)


async def _use(turns: Turns) -> None:
    async with turns.turn():
        await asyncio.sleep(0)
