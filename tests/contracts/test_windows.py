"""What a window's tickets say of their messages, on a real broker."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from consumer.edges.broker.windows import Window, WindowReader
from consumer.flow.intake import Source
from consumer.flow.observe import Observer
from consumer.ports import Incoming
from metrics.series import Series
from tests.fakes import RecordingLog
from tests.topology.live import PATIENCE_S, SMALL, connected, standing

LANES = (SMALL.names.lane(0), SMALL.names.lane(1))


async def test_a_deleted_queue_leaves_its_messages_to_us_and_gives_the_others_out_again(vhost: str) -> None:
    """FAULTS 62, 67: the channel closes; what the deleted queue had given out is ours alone, the rest not."""
    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    reader = WindowReader(
        Window(source=Source.LANE, queues=LANES, prefetch=10),
        Observer(Series(CollectorRegistry()), RecordingLog()),
        lambda _source, incoming: taken.put_nowait(incoming),
        lambda: None,
    )
    async with asyncio.timeout(PATIENCE_S), standing(vhost, SMALL) as live, connected(vhost) as connection:
        running = asyncio.create_task(reader.run(connection))
        for lane in LANES:
            await live.publish("", lane)
        first = {(one := await taken.get()).message.queue: one for _ in LANES}
        assert all(incoming.ticket.alive() for incoming in first.values())

        await live.channel.queue_delete(LANES[0])

        while first[LANES[1]].ticket.alive():  # noqa: ASYNC110  a ticket tells its state by a call only
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert first[LANES[0]].ticket.alive()
