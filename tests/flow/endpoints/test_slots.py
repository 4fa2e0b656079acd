"""The slots of one endpoint, with waiters and cancellations."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.endpoint.admission import Hold, Send, Wait
from consumer.flow.base.context import Bounds
from tests.support.builders.endpoints import admit, endpoint
from tests.support.fakes import START, run_virtually, settled

Deed = tuple[str, int]


@settings(max_examples=120)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["take", "end", "cancel", "resize"]), st.integers(0, 9)), max_size=60),
)
def test_slots_are_never_exceeded_with_waiters_and_cancellations(concurrency: int, deeds: list[Deed]) -> None:
    """In any order of requests, ends and cancelled waits: no more than the slots, and none is lost."""

    async def main() -> None:
        shop = endpoint(Bounds(quick_wait_s=1e9), concurrency=concurrency)
        holders: list[asyncio.Event] = []
        tasks: list[asyncio.Task[None]] = []
        holding, limit = 0, concurrency

        async def one(wait: bool) -> None:
            nonlocal holding
            if wait and not await shop.slots.acquire():
                return
            holding += 1
            assert holding <= limit
            leave = asyncio.Event()
            holders.append(leave)
            try:
                await leave.wait()
            finally:
                holding -= 1
                shop.slots.release()

        for deed, pick in deeds:
            if deed == "take":
                admission = admit(shop, START)
                assert not isinstance(admission, Hold)
                tasks.append(asyncio.create_task(one(isinstance(admission, Wait))))
            elif deed == "end" and holders:
                holders.pop(pick % len(holders)).set()
                for _ in range(pick % 4):  # the next one may meet a slot on its way
                    await asyncio.sleep(0)
                continue
            elif deed == "cancel" and tasks:
                tasks.pop(pick % len(tasks)).cancel()
            elif deed == "resize":
                await settled()
                limit = max(pick % 4 + 1, holding)
                shop.rebind(replace(shop.subscription, concurrency=limit))
            await settled()
        await settled()  # a slot may be on its way to a waiter
        while holding:
            for leave in holders:
                leave.set()
            await settled()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert shop.slots.in_flight == 0
        assert isinstance(admit(shop, START), Send)

    run_virtually(main)
