"""Operational events: what an administrator is told, once at first and then in sums.

Data flow: flow.observe -> Note -> :class:`Digest` (one per thing and minute, few in all) -> OpsEvent ->
CloudEvent on ``leveret.ops``, and deliveries to the subscriptions of the tenant ``leveret``.

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
"""What happens again to the same thing within this time is summed up in one event at its end."""
EVENTS_MAX: Final = 60
"""Events told at once in one window; what is more is summed up by type at the window's end."""
DETAIL_MAX: Final = 300


class OperatorEventType(StrEnum):
    """Types of operational events; also the routing keys on ``leveret.ops``."""

    ENDPOINT_DISABLED = "endpoint.disabled"
    ENDPOINT_RECOVERED = "endpoint.recovered"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"
    DELIVERY_PARKED = "delivery.parked"
    TENANT_NOISY = "tenant.noisy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something happened."""

    type: OperatorEventType
    tenant: str  #: whom it happened to; empty where that is not known
    subject: str = ""  #: id of the subscription, where there is one
    reason: str = ""  #: a word or a sentence; a stranger's text is the reader's to escape


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvent:
    """What is told."""

    note: Note
    count: int  #: how often it happened
    first_at: float  #: Unix seconds
    last_at: float
    summed_at: float | None = None  #: when it was told as a sum of what happened after the first time

    @property
    def id(self) -> str:
        """The same for the first of a thing in a minute, whichever worker tells it; a sum has its own."""
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
        """Write it as an event of the tenant ``leveret``, as it came at *now* (Unix seconds)."""
        return Event(
            id=self.id,
            tenant=OPERATORS,
            type=self.note.type.value,
            timestamp=rfc3339(self.last_at),
            arrived_at=now,
            body=orjson.dumps(self.data()),
        )

    def cloud_event(self, source: str) -> bytes:
        """Write it as a structured CloudEvent."""
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
    """Sums up; times are Unix seconds. A clock that is set back ends every window."""

    _seen: dict[tuple[str, str, str], tuple[float, OperatorEvent | None]] = field(default_factory=dict)
    _rest: dict[OperatorEventType, OperatorEvent] = field(default_factory=dict)
    _window: float = 0.0  #: beginning of the window in which events are counted
    _told: int = 0

    def note(self, note: Note, now: float) -> Sequence[OperatorEvent]:
        """Take a note; return what is to be told at once: the first of its kind, if there are few.

        Where it begins a window, what is left of the one before comes first: in a storm there is always a
        note before the next look.
        """
        told = self._roll(now)
        key = (note.type.value, note.tenant, note.subject)
        one = OperatorEvent(note=note, count=1, first_at=now, last_at=now)
        known = self._seen.get(key)
        if known is not None:
            self._seen[key] = (known[0], _sum(known[1], one))
        elif self._told >= EVENTS_MAX:
            both = _sum(self._rest.get(note.type), one)
            self._rest[note.type] = replace(both, note=Note(type=note.type, tenant="", reason="many at once"))
        else:
            self._told += 1
            self._seen[key] = (now, None)
            told.append(one)
        return told

    def due(self, now: float) -> Sequence[OperatorEvent]:
        """Return the sums whose time is over."""
        told = self._roll(now)
        for key, (since, more) in list(self._seen.items()):
            if _within(since, now):
                continue
            if more is None:
                del self._seen[key]
            else:
                told.append(replace(more, summed_at=now))
                self._seen[key] = (now, None)
        return told

    def left(self, now: float) -> Sequence[OperatorEvent]:
        """Return every sum there is, at the end."""
        sums = [more for _, more in self._seen.values() if more is not None]
        told = [replace(more, summed_at=now) for more in (*sums, *self._rest.values())]
        self._seen, self._rest = {}, {}
        return told

    def _roll(self, now: float) -> list[OperatorEvent]:
        """Begin a window where one is over; return the sums by type of that one."""
        if _within(self._window, now):
            return []
        told = [replace(rest, summed_at=now) for rest in self._rest.values()]
        self._window, self._told, self._rest = now, 0, {}
        return told


def _within(since: float, now: float) -> bool:
    return 0 <= now - since < WINDOW_S


def _sum(older: OperatorEvent | None, newer: OperatorEvent) -> OperatorEvent:
    if older is None:
        return newer
    return replace(newer, count=older.count + newer.count, first_at=older.first_at)
