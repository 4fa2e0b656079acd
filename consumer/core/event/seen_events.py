"""Remember the events that a worker finished lately, so that a repeated one is recognised.

Data flow: Event -> :meth:`SeenEvents.begin` -> handled and acked -> :meth:`SeenEvents.end`.

An event counts as seen only after its message was acked: until then the broker may give the same message out
again, and that copy owes the deliveries. Events of two types are two events, even with one id.

Source: S1-15.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import islice
from typing import Final

from consumer.core.model import Event

SEEN_MAX: Final = 50_000
"""Events that are remembered; then the oldest is forgotten. Some 200 bytes each."""


class Seen(Enum):
    """The state of an event."""

    NEW = auto()
    RUNNING = auto()  #: another message of its tenant, type and id is being handled
    DONE = auto()  #: a message of its tenant, type and id was acked within the window


class SeenEvents:
    """The ids of one worker; times are monotonic seconds."""

    def __init__(self, window_s: float, most: int = SEEN_MAX) -> None:
        """Remember nothing.

        Args:
            window_s: Seconds for which an event is remembered after its ack.
            most: Events that are remembered.
        """
        self._window_s = window_s
        self._most = most
        self._running: set[tuple[str, str, str]] = set()
        self._done: dict[tuple[str, str, str], float] = {}  #: when it ended, the oldest first

    def __len__(self) -> int:
        """Return how many events are remembered."""
        return len(self._done)

    def begin(self, event: Event, now: float) -> Seen:
        """Return the state of *event* so far; a new one is running from now on."""
        key = (event.tenant, event.type, event.id)
        ended = self._done.get(key)
        if ended is not None and now - ended < self._window_s:
            return Seen.DONE
        if key in self._running:
            return Seen.RUNNING
        self._running.add(key)
        return Seen.NEW

    def end(self, event: Event, now: float, *, acked: bool) -> None:
        """Take in the end of a running event; one that was not acked is forgotten."""
        key = (event.tenant, event.type, event.id)
        self._running.discard(key)
        if not acked:
            return
        self._done.pop(key, None)
        self._done[key] = now
        for old, ended in list(islice(self._done.items(), 2)):  # two for each new one: the number falls
            if now - ended >= self._window_s or len(self._done) > self._most:
                del self._done[old]
