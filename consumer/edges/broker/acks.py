"""Settle messages in few frames: what is settled within a few milliseconds travels together.

Measured: a frame per ack costs a fifth of consuming; one frame for a run of tags costs next to nothing.
"""

from __future__ import annotations

import asyncio

from aiormq.channel import Channel

from consumer.edges.broker.connect import CONNECTION_ERRORS
from consumer.flow.observe import Observer

FLUSH_S = 0.002  #: the longest that an ack waits for company


class Acks:
    """The acks of one channel. A delivery tag means nothing on another channel, so neither do these."""

    def __init__(self, channel: Channel, observe: Observer) -> None:
        self.channel = channel
        self._observe = observe
        self._due: set[int] = set()  #: settled, not yet told to the broker
        self._told: set[int] = set()  #: told one by one, above the head
        self._head = 0  #: every tag up to this one is settled and told
        self._flushing: asyncio.Task[None] | None = None
        self._planned = False
        self._writing = asyncio.Lock()

    def ack(self, tag: int) -> None:
        """Settle *tag*; the broker hears of it within a few milliseconds."""
        self._due.add(tag)
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(FLUSH_S, self._start_flush)

    async def requeue(self, tag: int) -> None:
        """Give *tag* back to the broker now."""
        self._told.add(tag)
        async with self._writing:
            try:
                await self.channel.basic_nack(tag, requeue=True, wait=False)
            except CONNECTION_ERRORS:
                self._observe.series.stale_settles.inc()

    async def flush(self) -> None:
        """Tell the broker all that is settled: the unbroken run in one frame, the rest one by one.

        The frame of the run names its last tag that is still to be told: to the broker a tag that was
        told before is unknown, which closes the channel.
        """
        self._planned = False
        due, last_in_run = self._due, 0
        while (tag := self._head + 1) in due or tag in self._told:
            self._told.discard(tag)
            if tag in due:
                last_in_run = tag
            self._head = tag
        single = sorted(tag for tag in due if tag > self._head)
        self._due = set()
        self._told.update(single)
        async with self._writing:  # a later run must not overtake the single acks below it
            try:
                if last_in_run:
                    await self.channel.basic_ack(last_in_run, multiple=True, wait=False)
                for tag in single:
                    await self.channel.basic_ack(tag, wait=False)
            except CONNECTION_ERRORS:
                self._observe.series.stale_settles.inc(len(due))

    def _start_flush(self) -> None:
        self._flushing = asyncio.get_running_loop().create_task(self.flush())
