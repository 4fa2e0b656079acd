"""The gauge of parked entries counts those in hand, too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from consumer.edges.broker.queue_depths import ParkedTotal, follow_sizes, unknown
from consumer.edges.operate.parked.lock import Turn, parked_look
from tests.support.broker.topology import PATIENCE_S, SMALL, connected, standing
from tests.support.builders.parked_queue import failed, park_all

NAMES = SMALL.names
MANY = 30  #: entries


class Depths:
    """Takes the first count."""

    def __init__(self) -> None:
        self.first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """Take a count."""
        if not self.first.done():
            self.first.set_result(totals["parked"])


async def test_entries_in_hand_count(vhost: str) -> None:
    """S1-6: while a command looks, the index counts."""

    async def indexed() -> int | None:
        return MANY

    async with standing(vhost, SMALL) as live, connected(vhost) as other:
        await park_all(live.connection, NAMES, [(failed(n, "acme", "sub_1", 1e9), 1e9) for n in range(MANY)])
        async with parked_look(other, NAMES, Turn(command="test")) as look:
            assert len([held async for held in look.messages()]) == MANY
            depths = Depths()
            queues = [(NAMES.parked, "parked")]
            task = asyncio.create_task(follow_sizes(live.connection, queues, [depths], ParkedTotal(indexed)))
            counted = await asyncio.wait_for(depths.first, PATIENCE_S)
            task.cancel()
    assert counted == MANY


async def test_without_an_index_the_last_count_is_kept() -> None:
    """S1-6: and entries that are parked meanwhile are not hidden."""
    total = ParkedTotal(unknown)
    assert await total.of(ready=120, consumers=0) == 120
    assert await total.of(ready=0, consumers=1) == 120
    assert await total.of(ready=130, consumers=2) == 130
    assert await total.of(ready=0, consumers=0) == 0
