"""Publish many events on schedule, and report each after its confirm.

Data flow: make(number) at its time -> the broker, mandatory -> confirm -> confirmed(publication).
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
class Schedule:
    """The number of events, and their rate."""

    count: int | None = 1  #: None goes on until it is cancelled
    rate_per_s: float | None = None  #: events a second; None is as fast as the broker confirms
    unconfirmed: int = 256  #: publications that wait for their confirm at the same time, at most
    confirm_s: float = 60.0  #: longest wait for one confirm


async def publish_paced(
    connection: AbstractConnection,
    exchange: str,
    make: Callable[[int], Publication],
    schedule: Schedule,
    confirmed: Callable[[Publication], None],
) -> None:
    """Publish in order and return once all are confirmed.

    The n-th leaves (n - 1) / rate seconds after the first; late ones catch up, so that the rate holds.
    After a refusal no further one leaves, and those in flight still get their confirms: the broker may
    refuse the last event before it confirms the first, as only a taken one has to reach the disk.

    Args:
        connection: Connection to the broker.
        exchange: Exchange of all publications.
        make: Makes the publication with this number, from 1, at its time; it sets ``message_id``.
        schedule: Number and rate.
        confirmed: Called with each publication once the broker has confirmed it.

    Raises:
        Unroutable: no queue is bound for one of them.
        Refused: the broker answered with a nack.
        BrokerUnavailable: a confirm did not come, or the exchange does not exist.
    """
    channel = await _opened(connection, exchange)
    refused = asyncio.get_running_loop().create_future()
    run = _Run(Confirms(channel), schedule, confirmed, asyncio.Semaphore(schedule.unconfirmed), refused)
    try:
        async with asyncio.TaskGroup() as group:
            await _start_all(group, run, make)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        with suppress(*CONNECTION_ERRORS):
            await channel.close(timeout=CLOSE_S)
    if run.refused.done():
        raise run.refused.result()


@dataclass(frozen=True, slots=True)
class _Run:
    confirms: Confirms
    schedule: Schedule
    confirmed: Callable[[Publication], None]
    free: asyncio.Semaphore  #: permits for further unconfirmed publications
    refused: asyncio.Future[Unroutable | Refused]  #: the first refusal, once there is one

    def refuse(self, error: Unroutable | Refused) -> None:
        if not self.refused.done():
            self.refused.set_result(error)


async def _opened(connection: AbstractConnection, exchange: str) -> Channel:
    """Open a channel and check the exchange, as a publish to a missing one only closes the channel."""
    try:
        channel = await open_channel(connection, confirms=True)
        await channel.exchange_declare(exchange, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        raise BrokerUnavailable(f"the broker has no exchange {exchange}; {_APPLY}") from None
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None
    return channel


async def _start_all(group: asyncio.TaskGroup, run: _Run, make: Callable[[int], Publication]) -> None:
    schedule, loop = run.schedule, asyncio.get_running_loop()
    began = loop.time()
    for number in count() if schedule.count is None else range(schedule.count):
        if schedule.rate_per_s is not None:
            await asyncio.wait([run.refused], timeout=began + number / schedule.rate_per_s - loop.time())
        await run.free.acquire()
        if run.refused.done():
            return
        group.create_task(_publish(run, make(number + 1)))


async def _publish(run: _Run, publication: Publication) -> None:
    """Publish one event and report its confirm or its refusal.

    Raises:
        BrokerUnavailable: as :func:`publish_paced`.
    """
    exchange, limit_s = publication.exchange, run.schedule.confirm_s
    try:
        async with asyncio.timeout(limit_s):
            await run.confirms.publish(publication, publication.message_id or "")
    except aiormq.exceptions.PublishError:
        run.refuse(Unroutable(f"exchange {exchange} has no queue for {publication.routing_key}; {_APPLY}"))
    except aiormq.exceptions.DeliveryError:
        full = f"the broker refused {publication.routing_key}: a lane is full; wait, or check its queues"
        run.refuse(Refused(full))
    except TimeoutError:
        raise BrokerUnavailable(
            f"no confirm within {limit_s:g} s; does the broker block publishers (memory or disk alarm)?"
        ) from None
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"not confirmed: {error or type(error).__name__}") from None
    else:
        run.confirmed(publication)
    finally:
        run.free.release()
