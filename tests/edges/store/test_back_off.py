"""The pause before a store is tried again."""

from __future__ import annotations

import asyncio

from consumer.edges.store.back_off import BackOff
from tests.support.fakes import run_virtually


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    """Fault 68: a store that is away is tried often at first, and soon again after it was back."""

    async def pauses() -> list[float]:
        loop, back_off, found = asyncio.get_running_loop(), BackOff(1.0, 3.0), list[float]()
        for works in (False, False, False, False, True, False):
            before = loop.time()
            if works:
                back_off.worked()
            else:
                await back_off.failed()
            found.append(loop.time() - before)
        return found

    assert run_virtually(pauses) == [1.0, 2.0, 3.0, 3.0, 0.0, 1.0]
