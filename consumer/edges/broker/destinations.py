"""Account for the publishes to each queue, so that a queue without confirms stops only its own publishes.

Data flow: publication -> :class:`Destination` of its queue -> the common channel, or a channel of its own ->
confirm. Every half second :meth:`Destinations.look` reports the queues that are stuck.

At most :data:`MOST` publishes to one queue are unconfirmed on one channel; further ones take a spare channel.
RabbitMQ stops reading a channel, and soon its whole connection, once 32 messages of it wait for one quorum
queue. With fewer, each channel goes on for all other queues while one of them has no leader.

A queue is *stuck* while its oldest publish has waited for :data:`STUCK_S`. A queue is in *doubt* after a
publish was given up without a confirm, or after :data:`NACKS` refusals in a row: then a channel of its own
makes one publish at a time, until one is confirmed. So a queue that returns after an outage gets few copies
of the publishes that were given up meanwhile. The channel is a new one since a channel of RabbitMQ 3.10 may
ask a dead member of the queue for ever.

Source: rabbit_fifo_client (``quorum_commands_soft_limit``, 32), credit_flow; faults 64, 65, 96; decision 41.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.exceptions import DeliveryError, PublishError

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.wire.confirmed import Confirms, Unconfirmed
from consumer.ports import Publication

MOST = 30  #: unconfirmed publishes to one queue on one channel
CHANNELS = 4  #: common channels: the first one, and spare ones for busy queues
STUCK_S = 2.0  #: age of a publish without a confirm from which new ones go elsewhere, if they can
TRIAL_S = 10.0  #: pause before a queue in doubt is tried again
TURN_S = 5.0  #: longest wait of a publish for its turn
NACKS = 3  #: refusals in a row after which another channel is tried
KEPT = 1_000  #: destinations that are remembered while nothing happens to them


@dataclass(slots=True, eq=False)
class Destination:
    """One queue, or one exchange whose queues are unknown.

    Attributes:
        name: Name of the queue or exchange; safe in the log.
        unconfirmed: Its publishes without a confirm.
        stuck: It confirmed nothing for long, by the last look.
    """

    name: str
    unconfirmed: Unconfirmed = field(default_factory=dict)
    stuck: bool = False
    own: Confirms | None = None  #: its own channel, once it was in doubt
    is_apart: bool = False  #: its publishes take a channel of their own
    taken: list[int] = field(default_factory=lambda: [0] * CHANNELS)  #: turns, by common channel
    _doubted: bool = False
    _trial_at: float = 0.0  #: loop time of the next trial, in doubt
    _nacks: int = 0
    _waiters: deque[asyncio.Future[int]] = field(default_factory=deque)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def oldest_s(self, now: float) -> float:
        """Return the age of the oldest publish without a confirm in seconds; 0 without one."""
        return now - next(iter(self.unconfirmed.values()), now)

    def is_idle(self) -> bool:
        """Return whether nothing is known of it that would be missed."""
        return not (any(self.taken) or self._waiters or self._doubted or self.is_apart or self._nacks)

    async def enter(self, now: float) -> int:
        """Take a turn, and return the number of its common channel; :meth:`leave` must follow.

        Raises:
            BrokerUnavailable: the queue had no room within :data:`TURN_S`.
        """
        number = None if self._waiters else self._turn(now)
        if number is not None:
            return number
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            async with asyncio.timeout(TURN_S):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(turn.result(), now)
            with suppress(ValueError):
                self._waiters.remove(turn)
            if isinstance(error, TimeoutError):
                raise self._unavailable() from None
            raise

    def leave(self, number: int, now: float) -> None:
        """Give a turn back; *number* is that of its common channel."""
        self.taken[number] -= 1
        self.wake(now)

    def wake(self, now: float) -> None:
        """Give free turns to those that wait."""
        while self._waiters:
            if self._waiters[0].done():
                self._waiters.popleft()
                continue
            number = self._turn(now)
            if number is None:
                return
            self._waiters.popleft().set_result(number)

    def send_on(self) -> None:
        """Let those that wait look for another queue."""
        waiters, self._waiters = self._waiters, deque()
        for turn in waiters:
            if not turn.done():
                turn.set_exception(self._unavailable())

    def answered(self, now: float) -> None:
        """Note a confirm, or another proof that the queue works."""
        self._nacks = 0
        if self._doubted:
            self._doubted = False
            self.wake(now)

    def refused(self, now: float) -> Channel | None:
        """Note a nack; return a channel of its own that is to be closed, as it may be the reason."""
        self._nacks += 1
        if self._nacks % NACKS:
            return None
        return self.doubt(now)

    def doubt(self, now: float) -> Channel | None:
        """Try a new channel from now on, one publish at a time; return its former channel, to close it."""
        self._doubted, self.is_apart, self._trial_at = True, True, now + TRIAL_S
        former, self.own = self.own, None
        return None if former is None else former.channel

    def is_stuck(self, now: float) -> bool:
        """Return whether publishes should take another queue, if they can."""
        waits = self._doubted and now < self._trial_at
        return waits or self.oldest_s(now) > STUCK_S

    def judge(self, now: float) -> None:
        """Note whether it is stuck; if it has become so, those that wait look for another queue."""
        was_stuck, self.stuck = self.stuck, self.is_stuck(now)
        if self.stuck and not was_stuck:
            self.send_on()
        self.wake(now)

    async def channel(self, connection: AbstractConnection) -> Confirms:
        """Return its own channel, and open one if it has none."""
        async with self._opening:
            if self.own is None or self.own.channel.is_closed:
                self.own = Confirms(await open_channel(connection, confirms=True))
            return self.own

    def disconnected(self, now: float) -> None:
        """Forget the channel and the doubt: a new connection asks the queue anew."""
        self.own, self.is_apart, self._doubted, self._nacks = None, False, False, 0
        self.wake(now)

    def _turn(self, now: float) -> int | None:
        """Take a free turn, and return the number of its common channel; in doubt there is only one turn."""
        if self._doubted:
            number = None if any(self.taken) or now < self._trial_at else 0
        else:
            number = next((number for number, taken in enumerate(self.taken) if taken < MOST), None)
        if number is not None:
            self.taken[number] += 1
        return number

    def _unavailable(self) -> BrokerUnavailable:
        return BrokerUnavailable(f"{self.name} confirms no publish now")


class Destinations:
    """All destinations of one publishing connection.

    Attributes:
        confirmed_at: Loop time of the last confirm.
    """

    def __init__(self, on_lost: Callable[[str, float], None]) -> None:
        """Begin with none.

        Args:
            on_lost: Called with the name of a queue and the age in seconds of a publish that is given up.
        """
        self.confirmed_at = 0.0
        self._on_lost = on_lost
        self._all: dict[str, Destination] = {}
        self._spare: dict[int, Confirms] = {}  #: common channels but the first, by number
        self._opening = asyncio.Lock()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    def of(self, key: str) -> Destination:
        """Return the destination of a key: a name, and after a zero byte a part that no log may contain."""
        found = self._all.get(key)
        if found is None:
            found = self._all[key] = Destination(key.partition("\0")[0])
        return found

    async def publish(
        self, key: str, publication: Publication, message_id: str, common: tuple[AbstractConnection, Confirms]
    ) -> float:
        """Publish in the turn of its queue; return the seconds until the confirm.

        Args:
            key: Of the destination.
            publication: The message.
            message_id: Its id.
            common: The connection, and its first common channel.

        Raises:
            BrokerUnavailable: the queue confirms nothing now, and nothing was written.
            PublishError, DeliveryError, ChannelInvalidStateError, FrameTooLarge: as :meth:`Confirms.publish`.
        """
        connection, confirms = common
        to = self.of(key)
        number = await to.enter(self._loop.time())
        try:
            if to.is_apart:
                confirms = await to.channel(connection)
            elif number:
                confirms = await self._spare_channel(number, connection)
            waited_s = await confirms.publish(publication, message_id, to.unconfirmed)
            self.confirmed_at = self._loop.time()
            to.answered(self.confirmed_at)
        except PublishError:
            to.answered(self._loop.time())
            raise
        except DeliveryError:
            await _close([to.refused(self._loop.time())])
            raise
        finally:
            to.leave(number, self._loop.time())
        return waited_s

    async def _spare_channel(self, number: int, connection: AbstractConnection) -> Confirms:
        """Return the spare common channel with this number, and open it if it is closed or missing."""
        spare = self._spare.get(number)
        if spare is None or spare.channel.is_closed:
            async with self._opening:
                spare = self._spare.get(number)
                if spare is None or spare.channel.is_closed:
                    spare = self._spare[number] = Confirms(await open_channel(connection, confirms=True))
        return spare

    def oldest_s(self) -> float:
        """Return the age of the oldest publish without a confirm in seconds; 0 without one."""
        now = self._loop.time()
        return max((to.oldest_s(now) for to in self._all.values() if to.unconfirmed), default=0.0)

    async def look(self, common: Confirms | None, lost_s: float) -> frozenset[str]:
        """Give up old publishes, and return the names of the stuck queues.

        Args:
            common: The first common channel, which stays open.
            lost_s: Age at which a publish is given up; it is then made again, if it is still wanted.
        """
        now, gone = self._loop.time(), list[Channel | None]()
        for key, to in list(self._all.items()):
            if to.oldest_s(now) > lost_s:
                gone.append(self._give_up(to, common, now, lost_s))
            to.judge(now)
            if len(self._all) > KEPT and to.is_idle():
                del self._all[key]
        await _close(gone)
        return frozenset(to.name for to in self._all.values() if to.stuck)

    def disconnected(self) -> None:
        """Note that the connection is gone, and every channel with it."""
        now = self._loop.time()
        self._spare.clear()
        for to in self._all.values():
            to.disconnected(now)

    def _give_up(self, to: Destination, common: Confirms | None, now: float, lost_s: float) -> Channel | None:
        """End the old publishes to a queue; return its own channel, which is to be closed, if it has one."""
        self._on_lost(to.name, to.oldest_s(now))
        for confirms in (*(() if common is None else (common,)), *self._spare.values()):
            for confirm in [each for each, began in to.unconfirmed.items() if now - began > lost_s]:
                confirms.abandon(confirm, lambda: to.answered(self._loop.time()))
        return to.doubt(now)


async def _close(channels: Sequence[Channel | None]) -> None:
    """Close channels; those that the broker does not close in time are left to it."""

    async def close(channel: Channel) -> None:
        with suppress(*CONNECTION_ERRORS):
            await channel.close(timeout=STUCK_S)

    await asyncio.gather(*(close(each) for each in channels if each is not None and not each.is_closed))
