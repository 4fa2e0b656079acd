"""Decide which queues are consumed: none before the store is known, no fresh events while too much waits.

Data flow: Trust, Backlog -> :meth:`ConsumeGate.changed` -> the edge leaves some sources alone; messages in
hand that must not be matched against the memory go back unstarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from consumer.flow.observe.observer import Observer
from consumer.flow.store.trust import ALL, FRESH, NOTHING, Trust
from consumer.flow.take.backlog import Backlog
from consumer.flow.take.intake import Intake
from consumer.ports import Source


class ConsumeGate:
    """One worker's gate; closed until :meth:`open`.

    Attributes:
        is_open: The state of endpoints was read from the store: messages may come, as far as trust allows.
    """

    def __init__(
        self,
        trust: Trust,
        backlog: Backlog,
        intake: Intake,
        leave: Callable[[frozenset[Source]], Awaitable[None]],
        observe: Observer,
    ) -> None:
        """Listen to *trust* and *backlog*; *leave* makes the edge consume all but some sources."""
        self._trust = trust
        self._backlog = backlog
        self._intake = intake
        self._leave = leave
        self._observe = observe
        self._changed = asyncio.Event()
        self._locked = False
        self.is_open = False
        trust.changes.add(self.changed)
        backlog.changes.add(self.changed)

    def changed(self) -> None:
        """Follow a change soon; where sources are held, nothing in hand starts from now on."""
        if self._trust.held:
            self._intake.pause()
        self._changed.set()

    def open(self) -> None:
        """Let messages come, as far as the store allows."""
        self.is_open = True
        self.changed()

    def lock(self) -> None:
        """Ignore every later change: the worker stops."""
        self._locked = True

    async def run(self) -> None:
        """Follow every change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.is_open and not self._locked:
                await self._follow()

    async def _follow(self) -> None:
        """Pause the intake while consumers are cancelled, so that nothing in hand starts in between."""
        held = self._trust.held
        if held:
            self._intake.pause()
        await self._leave(held | (FRESH if self._backlog.full else NOTHING))
        if self._locked:
            return
        if held:
            given = await self._intake.give_back()
            self._observe.warned("window.given_back", messages=given)
        if held != ALL and held == self._trust.held and not self._locked:
            self._intake.resume()
