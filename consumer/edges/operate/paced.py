"""Publish many events, each on time, and tell of each once it is confirmed.

Data flow: make(number) at its time -> the broker, mandatory -> confirmed -> the caller is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication

CLOSE_S = 2.0  #: longest wait for a channel to close

_APPLY = "start `leveret run`, or run `leveret topology apply`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many events, and how fast."""

    count: int | None = 1  #: None goes on until it is cancelled
    rate_per_s: float | None = None  #: events a second; None is as fast as the broker confirms
    unconfirmed: int = 256  #: so many wait for their confirm at most
    confirm_s: float = 60.0  #: longest wait for one confirm


async def publish_paced(
    connection: AbstractConnection,
    exchange: str,
    make: Callable[[int], Publication],
    pace: Pace,
    confirmed: Callable[[Publication], None],
) -> None:
    """Publish in order and return once all are confirmed.

    The n-th leaves (n - 1) / rate seconds after the first: what was late is caught up on, so the rate holds.

    Args:
        connection: To the broker.
        exchange: That all of them go to.
        make: Makes the event with this number, from 1, when its time has come; with its ``message_id``.
        pace: How many and how fast.
        confirmed: Told of each as soon as it is with the broker.

    Raises:
        Unroutable: no queue is bound for one of them.
        Refused: the broker said nack.
        BrokerUnavailable: no confirm came, or the exchange does not exist.
    """
    channel = await _opened(connection, exchange)
    way = _Way(Confirms(channel), pace, confirmed, asyncio.Semaphore(pace.unconfirmed))
    try:
        async with asyncio.TaskGroup() as group:
            await _start_all(group, way, make)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        with suppress(*CONNECTION_ERRORS):
            await channel.close(timeout=CLOSE_S)


@dataclass(frozen=True, slots=True)
class _Way:
    confirms: Confirms
    pace: Pace
    confirmed: Callable[[Publication], None]
    free: asyncio.Semaphore  #: room for one more that is not confirmed


async def _opened(connection: AbstractConnection, exchange: str) -> Channel:
    """Open a channel and see that the exchange is there: a publish to none only closes the channel."""
    try:
        channel = await open_channel(connection, confirms=True)
        await channel.exchange_declare(exchange, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        raise BrokerUnavailable(f"the broker has no exchange {exchange}; {_APPLY}") from None
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None
    return channel


async def _start_all(group: asyncio.TaskGroup, way: _Way, make: Callable[[int], Publication]) -> None:
    pace, loop = way.pace, asyncio.get_running_loop()
    began = loop.time()
    for number in count() if pace.count is None else range(pace.count):
        if pace.rate_per_s is not None:
            await asyncio.sleep(began + number / pace.rate_per_s - loop.time())
        await way.free.acquire()
        group.create_task(_publish(way, make(number + 1)))


async def _publish(way: _Way, publication: Publication) -> None:
    """Publish one event and tell of it.

    Raises:
        Unroutable, Refused, BrokerUnavailable: as :func:`publish_paced`.
    """
    exchange, limit_s = publication.exchange, way.pace.confirm_s
    try:
        async with asyncio.timeout(limit_s):
            await way.confirms.publish(publication, publication.message_id or "")
    except aiormq.exceptions.PublishError:
        raise Unroutable(
            f"exchange {exchange} has no queue for {publication.routing_key}; {_APPLY}"
        ) from None
    except aiormq.exceptions.DeliveryError:
        raise Refused(
            f"the broker refused {publication.routing_key}: a lane is full; wait, or see its queues"
        ) from None
    except TimeoutError:
        raise BrokerUnavailable(
            f"no confirm within {limit_s:g} s; does the broker block publishers (memory or disk alarm)?"
        ) from None
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"not confirmed: {error or type(error).__name__}") from None
    finally:
        way.free.release()
    way.confirmed(publication)
