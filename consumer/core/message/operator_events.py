"""Make operational events: the first of its kind at once, repetitions as one sum a minute.

Data flow: flow.observe -> Note -> :class:`Digest` (one per subject and minute, few in all) -> OperatorEvent
-> CloudEvent on ``leveret.ops``, and deliveries to the subscriptions of the tenant ``leveret``.

Source: S2-5; CloudEvents 1.0.2, JSON format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import orjson

from consumer.core.message.parked import rfc3339
from consumer.core.model import OPERATORS, Event
from consumer.core.text.printable import printable

WINDOW_S: Final = 60.0
"""Repetitions of a note about one subject within this time become one event at its end."""
EVENTS_MAX: Final = 60
"""Events that are sent at once in one window; further ones are summed up by type at its end."""
DETAIL_MAX: Final = 300


class OperatorEventType(StrEnum):
    """Types of operational events; also the routing keys on ``leveret.ops``."""

    ENDPOINT_DISABLED = "endpoint.disabled"
    ENDPOINT_RECOVERED = "endpoint.recovered"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"
    DELIVERY_PARKED = "delivery.parked"
    TENANT_NOISY = "tenant.noisy"
    PARKED_REPLAYED = "parked.replayed"  #: an automatic or scheduled replay sent entries again


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One occurrence."""

    type: OperatorEventType
    tenant: str  #: empty where it is not known
    subject: str = ""  #: id of the subscription, where there is one
    #: a word or a sentence; it may contain an endpoint's text, which the reader has to escape
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvent:
    """One or more occurrences, as operators receive them."""

    note: Note
    count: int  #: occurrences
    first_at: float  #: Unix seconds
    last_at: float
    summed_at: float | None = None  #: when the repetitions were summed up; None: the first occurrence

    @property
    def id(self) -> str:
        """The id: all workers give the first occurrence of a minute the same one; a sum has its own."""
        note = self.note
        when = repr(self.summed_at) if self.summed_at is not None else str(int(self.first_at // WINDOW_S))
        parts = (note.type, note.tenant, note.subject, when)
        return "ops_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def data(self) -> Mapping[str, object]:
        """Return the data of the event."""
        return {
            "tenant": self.note.tenant or None,
            "subscription_id": self.note.subject or None,
            "reason": printable(self.note.reason)[:DETAIL_MAX] or None,
            "count": self.count,
            "first_at": rfc3339(self.first_at),
            "last_at": rfc3339(self.last_at),
        }

    def event(self, now: float) -> Event:
        """Return it as an event of the tenant ``leveret`` that arrived at *now* (Unix seconds)."""
        return Event(
            id=self.id,
            tenant=OPERATORS,
            type=self.note.type.value,
            timestamp=rfc3339(self.last_at),
            arrived_at=now,
            body=orjson.dumps(self.data()),
        )

    def cloud_event(self, source: str) -> bytes:
        """Return it as a structured CloudEvent."""
        return orjson.dumps(
            {
                "specversion": "1.0",
                "id": self.id,
                "source": source,
                "type": self.note.type.value,
                "time": rfc3339(self.last_at),
                **({"subject": self.note.subject} if self.note.subject else {}),
                "datacontenttype": "application/json",
                "data": self.data(),
            },
            default=str,
        )


@dataclass(slots=True)
class Digest:
    """Sums repetitions up; times are Unix seconds. A step back of the clock ends every window."""

    _seen: dict[tuple[str, str, str], tuple[float, OperatorEvent | None]] = field(default_factory=dict)
    _rest: dict[OperatorEventType, OperatorEvent] = field(default_factory=dict)
    _window: float = 0.0  #: beginning of the window in which events are counted
    _sent: int = 0

    def note(self, note: Note, now: float) -> Sequence[OperatorEvent]:
        """Take in a note; return the events to send at once: the first of its kind, while there are few.

        A note that begins a window returns the sums of the previous window first: in a storm there is always
        a note before the next call of :meth:`due`.
        """
        sent = self._roll(now)
        key = (note.type.value, note.tenant, note.subject)
        one = OperatorEvent(note=note, count=1, first_at=now, last_at=now)
        known = self._seen.get(key)
        if known is not None:
            self._seen[key] = (known[0], _sum(known[1], one))
        elif self._sent >= EVENTS_MAX:
            both = _sum(self._rest.get(note.type), one)
            self._rest[note.type] = replace(both, note=Note(type=note.type, tenant="", reason="many at once"))
        else:
            self._sent += 1
            self._seen[key] = (now, None)
            sent.append(one)
        return sent

    def due(self, now: float) -> Sequence[OperatorEvent]:
        """Return the sums of the windows that have ended."""
        sent = self._roll(now)
        for key, (since, more) in list(self._seen.items()):
            if _within(since, now):
                continue
            if more is None:
                del self._seen[key]
            else:
                sent.append(replace(more, summed_at=now))
                self._seen[key] = (now, None)
        return sent

    def left(self, now: float) -> Sequence[OperatorEvent]:
        """Return every sum, when the daemon stops."""
        sums = [more for _, more in self._seen.values() if more is not None]
        sent = [replace(more, summed_at=now) for more in (*sums, *self._rest.values())]
        self._seen, self._rest = {}, {}
        return sent

    def _roll(self, now: float) -> list[OperatorEvent]:
        """Begin a window where the last one has ended; return the sums by type of the last one."""
        if _within(self._window, now):
            return []
        sent = [replace(rest, summed_at=now) for rest in self._rest.values()]
        self._window, self._sent, self._rest = now, 0, {}
        return sent


def _within(since: float, now: float) -> bool:
    return 0 <= now - since < WINDOW_S


def _sum(older: OperatorEvent | None, newer: OperatorEvent) -> OperatorEvent:
    if older is None:
        return newer
    return replace(newer, count=older.count + newer.count, first_at=older.first_at)
