"""Slots of a worker and of an endpoint: never exceeded, never lost, in order, and no wait without an end."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.flow.base.slot_queue import SlotQueue
from tests.support.fakes import run_virtually, settled

Deeds = list[tuple[str, int]]


@settings(max_examples=120)
@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["take", "end", "cancel"]), st.integers(0, 9))))
def test_global_slots_are_never_exceeded_nor_lost(capacity: int, deeds: Deeds) -> None:
    """In any order of takers, ends and cancelled waits."""

    async def main() -> None:
        slots = SlotQueue(capacity)
        leaves: list[asyncio.Event] = []
        tasks: list[asyncio.Task[None]] = []
        holding = 0

        async def one(leave: asyncio.Event) -> None:
            nonlocal holding
            await slots.acquire()
            holding += 1
            assert holding <= capacity
            try:
                await leave.wait()
            finally:
                holding -= 1
                slots.release()

        for deed, pick in deeds:
            if deed == "take":
                leaves.append(asyncio.Event())
                tasks.append(asyncio.create_task(one(leaves[-1])))
            elif deed == "end" and leaves:
                leaves[pick % len(leaves)].set()
            elif tasks:
                tasks[pick % len(tasks)].cancel()
            await asyncio.sleep(0)
        for leave in leaves:
            leave.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not any(isinstance(each.exception(), AssertionError) for each in tasks if not each.cancelled())
        assert slots.free == capacity

    run_virtually(main)


def test_a_slot_on_its_way_to_a_cancelled_waiter_is_not_lost() -> None:
    """Given and cancelled in the same moment: the slot goes on to the next."""

    async def main() -> None:
        slots = SlotQueue(1, patience_s=1.0)
        assert await slots.acquire()
        first, second = asyncio.create_task(slots.acquire()), asyncio.create_task(slots.acquire())
        await settled()

        slots.release()
        first.cancel()

        assert await second
        assert first.cancelled()
        slots.release()
        assert slots.in_flight == 0

    run_virtually(main)


def test_waiters_are_served_in_order() -> None:
    """First come, first served."""

    async def main() -> None:
        slots = SlotQueue(1, patience_s=1.0)
        assert await slots.acquire()
        served: list[int] = []

        async def one(number: int) -> None:
            assert await slots.acquire()
            served.append(number)
            slots.release()

        tasks = [asyncio.create_task(one(n)) for n in range(5)]
        await settled()
        slots.release()
        await asyncio.gather(*tasks)
        assert served == [0, 1, 2, 3, 4]

    run_virtually(main)


def test_no_wait_for_a_slot_is_longer_than_the_patience() -> None:
    """The wait for a slot is bounded; after it there is no slot taken and none lost."""

    async def main() -> None:
        slots = SlotQueue(1, patience_s=1.0)
        assert await slots.acquire()
        loop = asyncio.get_running_loop()

        assert not await slots.acquire()

        assert loop.time() == 1.0
        assert slots.in_flight == 1
        slots.release()
        assert slots.in_flight == 0

    run_virtually(main)


def test_a_slot_that_nobody_waits_for_is_reported() -> None:
    """Intake starts more jobs when a slot is free, and not when a waiter gets it."""

    async def main() -> None:
        freed: list[int] = []
        slots = SlotQueue(1, on_free=lambda: freed.append(slots.free))
        assert await slots.acquire()
        waiter = asyncio.create_task(slots.acquire())
        await settled()

        slots.release()
        assert await waiter
        assert freed == []

        slots.release()
        assert freed == [1]

    run_virtually(main)


def test_slots_that_are_taken_away_are_given_to_nobody() -> None:
    """Three of three are in use and one slot is left: two ends give it to no waiter, the third does."""

    async def main() -> None:
        slots = SlotQueue(3)
        for _ in range(3):
            slots.take()
        waiter = asyncio.create_task(slots.acquire())
        slots.resize(1)
        await settled()

        slots.release()
        slots.release()
        await settled()
        assert (slots.in_flight, waiter.done()) == (1, False)

        slots.release()
        assert await waiter
        assert (slots.in_flight, slots.free) == (1, 0)

    run_virtually(main)
