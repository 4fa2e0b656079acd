"""Decide whether the store may be trusted: the broker records which store its messages belong to.

    store loaded -> Trust.admits -> compared with the record on the broker -> taken over, or doubted
    the subscriptions in memory -> compared too -> which sources may be consumed

The memory was admitted once. So delivery goes on from it while the store is doubted, gone or away. Nothing is
consumed before the first admission, and nothing once the record names a generation that the memory does not
contain: where subscriptions are missing, an event would count as unmatched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from consumer.core.errors import BrokerUnavailable, StoreGone
from consumer.core.listeners import Listeners
from consumer.core.store.lineage import Doubt, Generation, Lineage, judge, must_record
from consumer.flow.observe.observer import Observer
from consumer.ports import Source, StoreRecord

FRESH = frozenset({Source.LANE, Source.INBOX, Source.SPILL})  #: messages that are matched
ALL = FRESH | {Source.DUE, Source.STRAY, Source.REPLAY, Source.SUSPECT}  #: messages that need subscriptions
NOTHING: frozenset[Source] = frozenset()

BEHIND = "another worker knows a newer generation of the store, and the store cannot be read; see the log"


RECHECK_S = 30.0  #: the record is compared again after this long, whatever happens
SOON_S = 2.0  #: so soon where somebody asks for it, or the store is not trusted
UNREAD_S = 5.0  #: a warning follows when the record could not be read for this long at the start


class Trust:
    """One worker's trust in its store.

    Attributes:
        memory: The store as it is in memory; None before the first admission.
        held: Sources that must not be consumed now.
        changes: Hears when :attr:`held` changes.
    """

    def __init__(
        self,
        observe: Observer,
        record: StoreRecord,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Trust nothing yet.

        Args:
            observe: Takes reports.
            record: The broker's memory of the store.
            now: Monotonic seconds.
        """
        self._observe = observe
        self._record = record
        self._now = now
        self._known: Generation | None = None  #: the record, as it was read or written last
        self._doubt: Doubt | None = None
        self._reason: str | None = None
        self._wanted = False  #: somebody asked for a comparison
        self._compared_at = -math.inf
        self._unread_since: float | None = None  #: monotonic seconds; at the start only
        self._unread = ""  #: the reason that was reported last
        self.memory: Lineage | None = None
        self.held: frozenset[Source] = ALL
        self.changes: Listeners[[]] = Listeners()

    @property
    def reason(self) -> str | None:
        """Why the store is not trusted, with the remedy; None: it is trusted, or was not compared yet."""
        return self._reason

    def generation(self) -> Generation | None:
        """Return the generation that is in memory."""
        return None if self.memory is None else self.memory.generation

    def heard(self, other: Generation) -> None:
        """Take the generation that another worker has in memory; a different one asks for a comparison."""
        self._wanted = self._wanted or other != self.generation()

    def ask(self) -> None:
        """Ask for a comparison soon: the broker is back, or an operator adopted a store."""
        self._wanted, self._compared_at = True, -math.inf

    def due(self) -> bool:
        """Return whether it is time to compare the record."""
        soon = self._wanted or self._reason is not None
        return self._now() >= self._compared_at + (SOON_S if soon else RECHECK_S)

    def is_taken(self, found: Lineage) -> bool:
        """Return whether *found* is the store in memory."""
        return found is self.memory

    async def admits(self, found: Lineage, has_moved: Callable[[], Awaitable[bool]]) -> bool:
        """Return whether the store that was read may replace the memory; False also where that is unknown.

        Args:
            found: The store, as it was read.
            has_moved: Returns whether the store changed since. Another worker may have read the newer one and
                recorded it: that is not a reason for a doubt, as this worker reads it too.
        """
        try:
            doubt = await self._compare(found)
        except BrokerUnavailable as error:
            if self.memory is None:
                self._say_unread(str(error))
                return False
            doubt = judge(found, self._known or self.memory.generation)
        if doubt is None:
            return True
        if doubt is Doubt.OLDER and await has_moved():
            return False
        is_right = self.memory is not None and judge(self.memory, self._known) is None
        self._settle(doubt.text, NOTHING if is_right else ALL, doubt)
        return False

    def taken(self, found: Lineage) -> None:
        """Note that the admitted store is in memory now: no source is held any more."""
        self.memory = found
        self._settle(None, NOTHING)

    async def without_store(self, error: Exception) -> None:
        """Compare the memory alone: the store cannot be read."""
        if self.memory is None:
            return
        if self.due():
            with suppress(BrokerUnavailable):
                await self._compare(self.memory)
        doubt = None if self._known is None else judge(self.memory, self._known)
        gone = f"{error}; nothing is cancelled meanwhile" if isinstance(error, StoreGone) else None
        if doubt is None:
            self._settle(gone, NOTHING)
        elif doubt is Doubt.OLDER:
            self._settle(gone or BEHIND, FRESH, doubt)
        else:
            self._settle(doubt.text, ALL, doubt)

    def seen(self) -> None:
        """Note that the store was read and is as it was loaded: one that had gone is back."""
        if self._reason is not None and self._doubt is None:
            self._settle(None, NOTHING)

    async def _compare(self, own: Lineage) -> Doubt | None:
        """Compare *own* with the record; where *own* is the right store and newer, record it.

        Raises:
            BrokerUnavailable: the record cannot be read or written now.
        """
        self._wanted, self._compared_at = False, self._now()
        found: list[Doubt | None] = []

        def decide(record: Generation | None, messages: int) -> Generation | None:
            found[:] = [judge(own, self.generation() if record is None else record, messages)]
            return own.generation if found == [None] and must_record(own.generation, record) else None

        self._known = await self._record.settle(decide)
        return found[0]

    def _say_unread(self, why: str) -> None:
        """Report once why the first comparison does not happen: nothing is consumed before it."""
        now = self._now()
        if self._unread_since is None:
            self._unread_since = now
        if now >= self._unread_since + UNREAD_S and why != self._unread:
            self._unread = why
            self._observe.store_unconfirmed(why)

    def _settle(self, reason: str | None, held: frozenset[Source], doubt: Doubt | None = None) -> None:
        self._doubt = doubt
        if reason != self._reason:
            self._reason = reason
            self._observe.store_doubted(reason, None if doubt is None else doubt.value)
        if held != self.held:
            self.held = held
            self.changes.notify()
