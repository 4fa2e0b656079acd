"""Settle messages in few frames: what is settled within a few milliseconds travels together.

Each ack frame is a command that the queue's Raft log has to take, so one frame for a run of tags spares the
broker more than us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from math import inf

from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from pamqp import frame
from pamqp.commands import Basic

from consumer.edges.broker.connection.connect import CONNECTION_ERRORS
from consumer.ports import BrokerReports

FLUSH_S = 0.005  #: the longest that the ack of an unbroken run waits for company
STRAGGLER_S = 0.025  #: the longest that an ack above a gap waits for the gap to close
MOST_TOLD = 50_000  #: tags remembered above a gap; beyond it runs are given up on this channel


class Acks:
    """The acks of one channel. A delivery tag means nothing on another channel, so neither do these.

    One message that stays in hand for long holds every run above it open, and all that was told above it has
    to be remembered. Past *most_told* that memory is dropped, and every later tag is told by itself.
    """

    def __init__(self, channel: Channel, observe: BrokerReports, *, most_told: int = MOST_TOLD) -> None:
        self.channel = channel
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, float] = {}  #: settled and not yet told to the broker -> loop time
        self._told: set[int] = set()  #: told one by one, above the head
        self._most_told = most_told
        self._singly = False  #: no runs any more: nothing is remembered, and ``multiple`` is never set
        self._head = 0  #: every tag up to this one is settled and told
        self._flushing: asyncio.Task[None] | None = None
        self._planned = False
        self._writing = asyncio.Lock()

    def ack(self, tag: int) -> None:
        """Settle *tag*; the broker hears of it within 5 ms, above a gap within 30 ms."""
        self._due[tag] = self._loop.time()
        self._plan()

    async def requeue(self, tag: int) -> None:
        """Give *tag* back to the broker now."""
        self._remember([tag])
        async with self._writing:
            try:
                await self.channel.basic_nack(tag, requeue=True, wait=False)
            except CONNECTION_ERRORS:
                self._observe.settles_lost(1)

    def remembered(self) -> int:
        """Count the tags that are kept because one below them is still in hand."""
        return len(self._told)

    async def flush(self) -> None:
        """Tell the broker all that is settled: the unbroken run in one frame, the rest one by one."""
        await self._flush(up_to=inf)

    async def _flush(self, up_to: float) -> None:
        """Tell the broker the unbroken run, and what has stood above a gap since *up_to*.

        The frame of the run names its last tag that is still to be told: to the broker a tag that was
        told before is unknown, which closes the channel.
        """
        due, last_in_run, told = self._due, 0, 0
        while not self._singly and self._is_settled(tag := self._head + 1):
            self._told.discard(tag)
            if due.pop(tag, None) is not None:
                last_in_run, told = tag, told + 1
            self._head = tag
        single = sorted(tag for tag, since in due.items() if self._singly or since <= up_to)
        for tag in single:
            del due[tag]
        self._remember(single)
        async with self._writing:  # a later run must not overtake the single acks below it
            try:
                if last_in_run:
                    await self.channel.basic_ack(last_in_run, multiple=True, wait=False)
                await self._ack_each(single)
            except CONNECTION_ERRORS:
                self._observe.settles_lost(told + len(single))

    async def _ack_each(self, tags: Sequence[int]) -> None:
        """Settle *tags* one by one: the first by the library, which looks whether it may; the rest in one go.

        While one slow message stands below, every ack is a single one: 15 us each by the library, 3 us here.
        """
        if not tags:
            return
        await self.channel.basic_ack(tags[0], wait=False)
        if len(tags) > 1:
            number = self.channel.number
            frames = [frame.marshal(Basic.Ack(delivery_tag=tag), number) for tag in tags[1:]]
            await self.channel.write_queue.put(ChannelFrame(payload=b"".join(frames), should_close=False))

    def _is_settled(self, tag: int) -> bool:
        return tag in self._due or tag in self._told

    def _remember(self, tags: Iterable[int]) -> None:
        if self._singly:
            return
        self._told.update(tags)
        if len(self._told) > self._most_told:
            self._singly = True
            self._told.clear()

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._loop.call_later(FLUSH_S, self._start_flush)

    def _start_flush(self) -> None:
        self._planned = False
        self._flushing = self._loop.create_task(self._flush(self._loop.time() - STRAGGLER_S))
        self._flushing.add_done_callback(lambda _: self._plan() if self._due else None)
