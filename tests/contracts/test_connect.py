"""Keeping a connection: what counts as one that was made again."""

from __future__ import annotations

import asyncio
from typing import cast

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection
from prometheus_client import CollectorRegistry

from consumer.core.errors import BrokerUnavailable, TopologyMismatch
from consumer.edges.broker.connect import AmqpOptions, KeepAlive, open_channel
from consumer.flow.observe import Observer
from metrics.series import Series
from tests.fakes import RecordingLog


class Line:
    """A connection that can only be closed."""

    async def close(self) -> None:
        """Close it."""


async def test_only_connections_that_were_made_again_are_counted() -> None:
    """Neither the first one nor a failed try (FAULTS 60)."""
    series = Series(CollectorRegistry())
    answers = iter([False, True, False, False, True, True])
    ended = asyncio.Event()

    async def opening(options: AmqpOptions, name: str) -> AbstractConnection:
        works = next(answers, None)
        if works is None:
            ended.set()
        if not works:
            raise BrokerUnavailable("no broker answered")
        return cast(AbstractConnection, Line())

    async def session(connection: AbstractConnection) -> None:
        raise BrokerUnavailable("lost")

    options = AmqpOptions(urls=(), reconnect_first_s=0.001, reconnect_max_s=0.001)
    keep_alive = KeepAlive(options, "publish", Observer(series, RecordingLog()), lambda: 0.5, opening)
    running = asyncio.create_task(keep_alive.run(session))
    await ended.wait()
    running.cancel()

    assert series.registry.get_sample_value("leveret_reconnects_total", {"connection": "publish"}) == 2


async def test_what_no_new_connection_mends_ends_it() -> None:
    """A topology that differs, or a bug, comes through at once instead of being tried again."""

    async def opening(options: AmqpOptions, name: str) -> AbstractConnection:
        return cast(AbstractConnection, Line())

    async def session(connection: AbstractConnection) -> None:
        raise TopologyMismatch("leveret.wait.200: x-message-ttl is 201")

    options = AmqpOptions(urls=(), reconnect_first_s=0.001, reconnect_max_s=0.001)
    observe = Observer(Series(CollectorRegistry()), RecordingLog())
    keep_alive = KeepAlive(options, "consume", observe, lambda: 0.5, opening)

    with pytest.raises(TopologyMismatch, match="201"):
        await asyncio.wait_for(keep_alive.run(session), 10)


async def test_what_has_arrived_is_read_at_once(vhost: str) -> None:
    """FAULTS 71: the library stops reading after ten frames, and the rest stands where nobody can choose."""
    async with await aio_pika.connect(vhost) as connection:
        channel = await open_channel(connection, confirms=False)

        assert channel.frames.maxsize == 0
        assert (await channel.queue_declare("one", exclusive=True)).message_count == 0
