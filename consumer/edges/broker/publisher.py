"""Publish persistent, mandatory, confirmed messages over a separate connection.

The broker may block a publishing connection (memory or disk alarm). Then it reads nothing from the socket,
not even acks, so acks use the other connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import inf

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.connection import Connection

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.listeners import Listeners
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    KeepAlive,
    closable,
    close_reason,
    closed,
    open_channel,
    underlay,
)
from consumer.edges.broker.connection.quorum_watch import QuorumWatch
from consumer.edges.broker.destinations import Destinations
from consumer.edges.broker.exchange_channels import ExchangeChannels
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import BrokerReports, Publication
from consumer.tasks import OwnedTasks, TaskHealth
from topology.names import Names

WATCH_S = 0.5  #: interval of the checks for a blocked connection and old confirms
QUEUES_KEPT = 1_024  #: routing keys whose queue is remembered
MANY_STUCK = 3  #: queues without confirms that are a fault of the broker, if no other queue confirms
PROBE_S = 1.0  #: longest wait for the answer to a probe


@dataclass(frozen=True, slots=True)
class Naming:
    """The names that the publisher needs.

    Attributes:
        ids: Prefix of the ids of messages.
        names: Of our exchanges and queues.
        tenant_header: Header of an event that names its tenant, and with it the lane.
    """

    ids: str
    names: Names
    tenant_header: str = "tenant"

    def destination(self, publication: Publication) -> str:
        """Return the key of the queue that *publication* goes to, as far as that is known."""
        exchange = publication.exchange
        is_event = exchange == self.names.events  # its keys have no end
        queue = None if is_event else _queue_of(self.names, exchange, publication.routing_key)
        return queue or f"{exchange}\0{publication.headers.get(self.tenant_header)}"

    def probe(self) -> Publication:
        """Return a message that no queue takes, which the broker confirms at once.

        Source: RabbitMQ "Publisher Confirms" (an unroutable message is confirmed once that is known).
        """
        return Publication(exchange=self.names.wait, routing_key="probe", body=b"", mandatory=False)


@lru_cache(QUEUES_KEPT)
def _queue_of(names: Names, exchange: str, routing_key: str) -> str | None:
    return names.queue_of(exchange, routing_key)


class ConfirmingPublisher:
    """The Publisher port over AMQP.

    Attributes:
        pressure: Receives the reason for back-pressure when it begins, and None when it ends.
        stuck: Receives the names of the queues that confirm nothing now, whenever they change.
        quorum: Asks queues for a confirm while nothing else is published.
    """

    def __init__(
        self,
        options: AmqpOptions,
        keep_alive: KeepAlive,
        naming: Naming,
        on_missing: Callable[[], None],
        tasks: TaskHealth | None = None,
    ) -> None:
        """Prepare; :meth:`run` connects.

        Args:
            options: Time limits of a confirm.
            keep_alive: Keeps the publishing connection.
            naming: Ids and names.
            on_missing: Called when an exchange, queue or binding is missing.
            tasks: Takes unexpected ends of tasks; None makes one.
        """
        self._options = options
        self._keep_alive = keep_alive
        self._observe: BrokerReports = keep_alive.observe
        self._naming = naming
        self._tasks = tasks or TaskHealth(self._observe)
        self._ids = map(f"{naming.ids}-{{:x}}".format, count())
        self._connection: AbstractConnection | None = None
        self._destinations = Destinations(self._lost)
        self.quorum = QuorumWatch(naming.names, self.publish, lambda: self._destinations.confirmed_at)
        self._stuck: frozenset[str] = frozenset()
        self._confirms: Confirms | None = None
        self._pressed: str | None = "not connected yet"
        self._relieved = asyncio.Event()
        self._pressing = asyncio.Event()
        self._pressing.set()
        self._is_ending = False  #: the worker stops, so that the end of the connection is no back-pressure
        self._on_missing = on_missing
        self.exchange_channels = ExchangeChannels(self._observe, options.confirm_lost_s, on_missing)
        self.pressure: Listeners[[str | None]] = Listeners()
        self.stuck: Listeners[[frozenset[str]]] = Listeners()

    async def run(self) -> None:
        """Keep the publishing connection alive, until cancelled."""
        await self._keep_alive.run(self._session)

    def stuck_queues(self) -> frozenset[str]:
        """Return the names of the queues that confirm nothing now; the others go on."""
        return self._stuck

    def pressed(self) -> str | None:
        """Return why no new attempt should start, or None."""
        return self._pressed

    async def relieved(self) -> None:
        """Return once there is no back-pressure."""
        await self._relieved.wait()

    async def pressed_for(self, limit_s: float) -> None:
        """Return once back-pressure has lasted *limit_s* without a break."""
        while True:
            await self._pressing.wait()
            try:
                await asyncio.wait_for(self._relieved.wait(), limit_s)
            except TimeoutError:
                return

    async def publish(self, publication: Publication) -> None:
        """Return once the broker has confirmed *publication*; see the port for the errors."""
        confirms, connection = self._confirms, self._connection
        if confirms is None or connection is None:
            raise BrokerUnavailable("no publishing connection to the broker")
        message_id = publication.message_id or next(self._ids)
        apart = not publication.mandatory or self.exchange_channels.suspects(publication.exchange)
        try:
            with closable():
                if apart:
                    waited_s = await self.exchange_channels.publish(publication, message_id)
                else:
                    key = self._naming.destination(publication)
                    common = (connection, confirms)
                    waited_s = await self._destinations.publish(key, publication, message_id, common)
        except aiormq.exceptions.PublishError:
            self._on_missing()
            raise Unroutable(
                f"exchange {publication.exchange}: no queue for {publication.routing_key}"
            ) from None
        except aiormq.exceptions.DeliveryError:
            raise Refused(f"exchange {publication.exchange}: nack for {publication.routing_key}") from None
        except CONNECTION_ERRORS as error:
            raise BrokerUnavailable(f"not confirmed: {error}") from None
        self._observe.publish_confirmed(waited_s)

    async def _session(self, connection: AbstractConnection) -> None:
        transport = underlay(connection)
        self._connection = connection
        self._is_ending = False
        self.exchange_channels.connect(connection)
        tasks = OwnedTasks(self._tasks, lambda: transport.is_closed)
        tasks.keep("confirms", lambda: self._watch(transport))
        try:
            while not transport.is_closed:
                await self._channel_session(connection, transport)
        except asyncio.CancelledError:
            self._is_ending = True
            raise
        finally:
            self._connection = None
            self.exchange_channels.connect(None)
            self._destinations.disconnected()
            self.quorum.forget()
            self._note_stuck(frozenset())
            self._press("not connected")
            await tasks.end()

    async def _channel_session(self, connection: AbstractConnection, transport: Connection) -> None:
        """Serve publishes on one channel until it closes, as after a publish to a missing exchange."""
        channel = await open_channel(connection, confirms=True)
        self._confirms = Confirms(channel)
        self.quorum.forget()  # questions without a channel were never asked
        self._press(None)
        try:
            await closed(channel, transport)
        finally:
            self._confirms = None
        self._press("the publishing channel closed")
        if not transport.is_closed:
            self.exchange_channels.suspect(await close_reason(channel))
        self._on_missing()
        await asyncio.sleep(self._options.reconnect_first_s)

    async def _watch(self, transport: Connection) -> None:
        """Look at old confirms every half second: of single queues, and of the whole broker."""
        options = self._options
        while True:
            await asyncio.sleep(WATCH_S)
            if await _is_blocked(transport):
                self._press("the broker blocks publishers (memory or disk alarm)")
                continue
            confirms, oldest_s = self._confirms, self._destinations.oldest_s()
            if confirms is None:
                continue
            is_silent = await self._is_silent(confirms, oldest_s)
            if is_silent and oldest_s > options.confirm_lost_s:
                self._observe.warned("confirm.lost", age_s=round(oldest_s, 1), queue="")
                await _close_bounded(confirms.channel, options.confirm_slow_s)
                continue
            lost_s = inf if is_silent else options.confirm_lost_s
            self._note_stuck(await self._destinations.look(confirms, lost_s))
            self._press(self._slowness(oldest_s, is_silent=is_silent))

    async def _is_silent(self, confirms: Confirms, oldest_s: float) -> bool:
        """Return whether no publish at all is confirmed: a probe separates a stuck queue from the broker."""
        since_s = asyncio.get_running_loop().time() - self._destinations.confirmed_at
        if min(oldest_s, since_s) <= self._options.confirm_slow_s / 2:
            return False
        try:
            async with asyncio.timeout(PROBE_S):
                await confirms.publish(self._naming.probe(), next(self._ids))
        except CONNECTION_ERRORS:
            return True
        return False

    def _slowness(self, oldest_s: float, *, is_silent: bool) -> str | None:
        """Return the reason for back-pressure in the confirms; None where only few queues are stuck."""
        slow_s = self._options.confirm_slow_s
        if oldest_s > slow_s and is_silent:
            return f"a publish has waited over {slow_s:g} s for its confirm"
        now = asyncio.get_running_loop().time()
        if self.quorum.is_lost(now, slow_s):
            return f"no queue has confirmed a publish for {slow_s:g} s: too many nodes may be away"
        since_s = now - self._destinations.confirmed_at
        if len(self._stuck) >= MANY_STUCK and since_s > slow_s:
            return f"{len(self._stuck)} queues confirm no publish; the others confirmed none for {slow_s:g} s"
        return None

    def _lost(self, queue: str, age_s: float) -> None:
        self._observe.warned("confirm.lost", age_s=round(age_s, 1), queue=queue)

    def _note_stuck(self, stuck: frozenset[str]) -> None:
        if stuck != self._stuck:
            self._observe.queues_stuck(stuck)
            self._stuck = stuck
            self.stuck.notify(stuck)

    def _press(self, reason: str | None) -> None:
        if reason != self._pressed:
            changed = (reason is None) != (self._pressed is None)
            self._pressed = reason
            if changed:
                now, before = (
                    (self._relieved, self._pressing) if reason is None else (self._pressing, self._relieved)
                )
                now.set()
                before.clear()
                if not self._is_ending:
                    self._observe.pressed(reason)
                self.pressure.notify(reason)


async def _close_bounded(channel: Channel, limit_s: float) -> None:
    """Close a channel; a broker that does not answer must not end the watch."""
    try:
        await channel.close(timeout=limit_s)
    except CONNECTION_ERRORS:
        return


async def _is_blocked(transport: Connection) -> bool:
    """Return whether the broker has sent connection.blocked, after which ready() does not return."""
    try:
        await asyncio.wait_for(transport.ready(), 0.05)
    except TimeoutError:
        return True
    return False
