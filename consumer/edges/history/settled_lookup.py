"""Look up in the history which events a worker settled lately, so that a repeated one is recognised.

Data flow: flow -> :meth:`SettledLookup.knows` -> one query for all events that ask together -> answers.
It is beside the deliveries: an event waits for :data:`LOOK_UP_S` at most behind a look-up that is under way,
and as long again for its own. While the history cannot be read, events are sent at once without a look-up,
and counted.

A row reaches the store about a quarter second after the event was settled (``history_writer.GATHER_S``), or
two seconds after it while the worker's loop lags (``PATIENCE_S``). A repeated event that another worker takes
within this time is sent again. Decision 37. Source: S1-15.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from consumer.core.errors import LeveretError
from consumer.core.history.trace import EventKey
from consumer.core.model import Event
from consumer.edges.history.history_store import SettledReader
from consumer.edges.store.back_off import BackOff
from consumer.ports import LookupReports

LOOK_UP_S: Final = 0.25  #: longest time for one query
OPEN_S: Final = 2.0  #: longest time for opening the history; at the start of a worker events wait for it
AHEAD_S: Final = 60.0  #: how far the clocks of two workers may differ
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0


class SettledLookup:
    """Implements :class:`consumer.ports.SettledEvents`."""

    def __init__(
        self, reader: SettledReader, window_s: float, observe: LookupReports, now: Callable[[], float]
    ) -> None:
        """Bind to a history; nothing is opened yet.

        Args:
            reader: Answers the queries.
            window_s: Seconds for which a settled event counts.
            observe: Counts the events that were sent without a look-up.
            now: Returns Unix seconds.
        """
        self._reader = reader
        self._window_s = window_s
        self._observe = observe
        self._now = now
        self._asked: dict[EventKey, asyncio.Future[bool]] = {}
        self._work = asyncio.Event()
        self._is_away = False

    async def knows(self, event: Event) -> bool:
        """Return whether a worker settled an event of the same tenant, type and id within the window."""
        if not f"{event.tenant}{event.type}".isprintable():
            return False  # a row contains it escaped, as another event may have it unescaped
        if self._is_away:
            self._observe.lookups_missed(1)
            return False
        key = EventKey(event.id, event.tenant, event.type)
        answer = self._asked.setdefault(key, asyncio.get_running_loop().create_future())
        self._work.set()
        return await asyncio.shield(answer)  # a cancelled job leaves it to others, and to run()

    async def run(self) -> None:
        """Answer until cancelled; a bug here stops no delivery."""
        back_off = BackOff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        try:
            while True:
                try:
                    async with asyncio.timeout(OPEN_S):
                        await self._reader.settled((), 0.0, 0.0)
                    self._is_away = False
                    self._observe.lookups_worked()
                    await self._answer_always(back_off)
                except (LeveretError, OSError, ValueError) as error:
                    self._observe.lookups_failed(error)
                except Exception as error:
                    self._observe.task_failed("settled lookup", error)
                self._miss()
                await back_off.failed()
        finally:
            self._miss()

    async def close(self) -> None:
        """Close the history; a silent store holds the end of the worker up for a bounded time."""
        with suppress(LeveretError, OSError):
            async with asyncio.timeout(OPEN_S):
                await self._reader.close()

    async def _answer_always(self, back_off: BackOff) -> None:
        """Answer until a query fails; the answers that are due then stay due."""
        while True:
            await self._work.wait()
            self._work.clear()
            keys, now = list(self._asked), self._now()
            async with asyncio.timeout(LOOK_UP_S):
                found = await self._reader.settled(keys, now - self._window_s, now + AHEAD_S)
            back_off.worked()
            for key in keys:
                self._asked.pop(key).set_result(key in found)

    def _miss(self) -> None:
        """Let every event that waits be sent, and those that follow."""
        self._is_away = True
        asked, self._asked = self._asked, {}
        self._work.clear()
        if asked:
            self._observe.lookups_missed(len(asked))
        for answer in asked.values():
            answer.set_result(False)
