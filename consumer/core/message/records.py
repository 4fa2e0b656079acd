"""Define the records that the daemon keeps for operators: states of endpoints, an index of parked entries.

Data flow: states and parked entries -> EndpointState, ParkedRow -> the store -> the command line.
No decision depends on these records: a missing or old row is an inconvenience, not a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.text.printable import printable

TEXT_MAX: Final = 256
"""Characters kept of a producer's text, such as a refused tenant."""
DETAIL_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointState:
    """The state of an endpoint, as a worker last reported it."""

    endpoint: str  #: id of the endpoint
    tenant: str
    subscription_id: str
    state: str  #: closed | open | probing | forced | disabled
    epoch: int  #: of the breaker, in the worker that reported it
    since: float  #: Unix seconds
    reason: str = ""  #: why it is disabled
    updated: float = 0.0  #: Unix seconds when it was written


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRow:
    """One line of the index of parked entries; the entry itself is in the broker."""

    id: str  #: ``prk_`` and 16 hex digits
    tenant: str | None
    event_id: str | None
    type: str | None
    subscription_ids: Sequence[str]  #: empty for a message that never became an event
    reason: str  #: a :class:`consumer.core.model.ParkReason`
    detail: str
    code: str | None  #: of the last failure: a status, or a kind such as ``dns``
    attempts: int
    arrived_at: float | None  #: Unix seconds, as all times here
    parked_at: float
    expires_at: float  #: when the parked queue removes it


def parked_row(entry: ParkedEntry) -> ParkedRow:
    """Return the line of *entry*, with a producer's texts made printable and short."""
    shown = entry_as_dict(entry)
    delivery = entry.delivery
    return ParkedRow(
        id=entry.id,
        tenant=_short(shown["tenant"]),
        event_id=_short(shown["event_id"]),
        type=_short(shown["type"]),
        subscription_ids=() if delivery is None else tuple(delivery.targets),
        reason=entry.reason.value,
        detail=short(entry.detail),
        code=_short(shown["last_failure_code"]),
        attempts=0 if delivery is None else delivery.attempts_made,
        arrived_at=None if delivery is None else delivery.event.arrived_at,
        parked_at=entry.parked_at,
        expires_at=entry.parked_at + entry.ttl_s,
    )


def short(text: str) -> str:
    """Return a reason, which may contain an endpoint's text, as one printable line of bounded length."""
    return printable(text)[:DETAIL_MAX]


def _short(value: object) -> str | None:
    return None if value is None else printable(str(value))[:TEXT_MAX]
