"""Read one window of a broker in tests, and keep the reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from prometheus_client import CollectorRegistry

from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.broker.consume.acks import FLUSH_S
from consumer.edges.broker.consume.windows import Window, WindowReader
from consumer.flow.observe.observer import Observer
from consumer.ports import Incoming, Source
from consumer.tasks import end
from metrics.series import Series
from tests.support.fakes import RecordingLog


@dataclass(slots=True)
class Reading:
    """A window that is read: its connection, its log, and its messages."""

    connection: AbstractConnection
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
        yield Reading(connection, reader, log, taken)
    finally:
        await end([running])
        await close_quietly(connection)
        # Timers of a loop fire in order: the flush that the last acks have planned begins before this ends.
        await asyncio.sleep(2 * FLUSH_S)


def observer() -> Observer:
    """Return an observer that only keeps."""
    return Observer(Series(CollectorRegistry()), RecordingLog())


class Listener:
    """Keeps the reports of the edge. Implements ``ports.BrokerListener``."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[tuple[Source, Incoming]] = asyncio.Queue()
        self.reliefs = 0
        self.listens = 0  #: how often a control queue was consumed

    def deliver(self, source: Source, incoming: Incoming) -> None:
        """Keep a message."""
        self.taken.put_nowait((source, incoming))

    def relieved(self) -> None:
        """Count it."""
        self.reliefs += 1

    def reopened(self) -> None:
        """Nothing is in hand that could be dropped."""

    def connected(self) -> None:
        """There is no store."""

    def listening(self) -> None:
        """Count it."""
        self.listens += 1

    def control(self, body: bytes) -> None:
        """There are no commands."""


def delivered(headers: Mapping[str, Any], redelivered: bool) -> DeliveredMessage:
    """Return a message of the library, without a channel."""
    return DeliveredMessage(
        delivery=Basic.Deliver("tag", 1, redelivered, "", "lane"),
        header=ContentHeader(0, 2, Basic.Properties(headers=dict(headers))),
        body=b"{}",
        channel=cast(AbstractChannel, None),
    )
