"""Read one window of a broker in tests, and keep the reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.broker.edge import end
from consumer.edges.broker.windows import Window, WindowReader
from consumer.flow.observe.observer import Observer
from consumer.ports import Incoming, Source
from metrics.series import Series
from tests.support.fakes import RecordingLog


@dataclass(slots=True)
class Reading:
    """A window that is read: its messages, its log, and how often it asked for missing queues."""

    reader: WindowReader
    log: RecordingLog
    taken: asyncio.Queue[Incoming] = field(default_factory=asyncio.Queue)


@asynccontextmanager
async def reading(url: str, queues: Sequence[str], prefetch: int = 10) -> AsyncIterator[Reading]:
    """Read *queues* of the broker at *url* as one window of lanes."""
    log, taken = RecordingLog(), asyncio.Queue[Incoming]()
    reader = WindowReader(
        Window(source=Source.LANE, queues=tuple(queues), prefetch=prefetch),
        Observer(Series(CollectorRegistry()), log),
        lambda _source, incoming: taken.put_nowait(incoming),
        lambda: None,
        lambda: True,
    )
    connection = await connect(AmqpOptions(urls=(url,)), "test")
    running = asyncio.create_task(reader.run(connection))
    try:
        yield Reading(reader, log, taken)
    finally:
        await end([running])
        await close_quietly(connection)
