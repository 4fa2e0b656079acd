"""Define the records that the daemon keeps for operators: states of endpoints, an index of parked entries.

Data flow: states and parked entries -> EndpointState, ParkedRow -> the store -> the command line.
No decision depends on these records: a missing or old row is an inconvenience, not a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from consumer.core.message.parked import ParkedEntry, entry_as_dict, rfc3339
from consumer.core.text.milliseconds import ceil_ms
from consumer.core.text.printable import printable
from consumer.core.text.rfc3339 import parse_ms

TEXT_MAX: Final = 256
"""Characters kept of a producer's text, such as a refused tenant."""
DETAIL_MAX: Final = 1_000
SHOWN_ATTEMPTS: Final = 20
"""Attempts that a row keeps, the newest ones; the entry in the broker keeps more."""


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
    replays: int = 0
    messages: int = 1  #: of this id in the queue: a crash may park one entry twice
    shown: str = ""  #: fields as JSON, see :func:`parked_row`; empty in rows of earlier releases


class ParkedCounts(NamedTuple):
    """The entries that are parked now, as the index has them."""

    by_tenant: Mapping[str, int] = {}  #: without entries that have no tenant
    by_subscription: Mapping[str, int] = {}  #: by id; without messages that never became an event
    total: int = 0
    oldest_at: float | None = None  #: Unix seconds when the oldest one was parked; None: no entry


def parked_row(entry: ParkedEntry) -> ParkedRow:
    """Return the line of *entry*, with a producer's texts printable and short, and its newest attempts."""
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
        attempts=0 if delivery is None else delivery.made_in_all,
        arrived_at=None if delivery is None else delivery.first_arrived_at,
        parked_at=_ms(entry.parked_at),
        expires_at=_ms(entry.parked_at) + entry.ttl_s,
        replays=int(str(shown.get("replays", 0))),
        shown=orjson.dumps({key: _safe(value) for key, value in _few_attempts(shown).items()}).decode(),
    )


def _few_attempts(shown: Mapping[str, object]) -> Mapping[str, object]:
    attempts = shown["attempts"]
    return {**shown, "attempts": attempts[-SHOWN_ATTEMPTS:]} if isinstance(attempts, list) else shown


def row_as_dict(row: ParkedRow) -> dict[str, object]:
    """Return the fields of a row as :func:`consumer.core.message.parked.entry_as_dict` names them."""
    if row.shown:
        shown: dict[str, object] = orjson.loads(row.shown)
        return shown
    return {
        "id": row.id,
        "reason": row.reason,
        "detail": row.detail,
        "parked_at": rfc3339(row.parked_at),
        "ttl_s": row.expires_at - row.parked_at,
        **row_as_cells(row),
        "event_id": row.event_id,
        "subscription_id": " ".join(row.subscription_ids) or None,
        "arrived_at": None if row.arrived_at is None else rfc3339(row.arrived_at),
    }


def row_from_dict(shown: Mapping[str, Any]) -> ParkedRow:
    """Return the row that :func:`row_as_dict` has shown, as the API returns it.

    Raises:
        KeyError: a field is missing.
    """
    parked_at, arrived_at = (parse_ms(shown.get(name) or "") for name in ("parked_at", "arrived_at"))
    since = (parked_at or 0) / 1000
    return ParkedRow(
        id=shown["id"],
        tenant=shown["tenant"],
        event_id=shown["event_id"],
        type=shown["type"],
        subscription_ids=tuple((shown["subscription_id"] or "").split()),
        reason=shown["reason"],
        detail=shown["detail"],
        code=shown["last_failure_code"],
        attempts=shown["failed_attempts"],
        arrived_at=None if arrived_at is None else arrived_at / 1000,
        parked_at=since,
        expires_at=since + shown["ttl_s"],
        replays=shown.get("replays", 0),
        shown=orjson.dumps(shown).decode(),
    )


def row_as_cells(row: ParkedRow) -> dict[str, object]:
    """Return the fields of a row that tables and groups show; reads no JSON."""
    return {
        "id": row.id,
        "parked_at": rfc3339(row.parked_at),
        "tenant": row.tenant,
        "type": row.type,
        "reason": row.reason,
        "subscription_id": " ".join(row.subscription_ids) or None,
        "failed_attempts": row.attempts,
        "last_failure_code": row.code,
        "detail": row.detail,
    }


def _ms(at: float) -> float:
    """Return *at* as an entry in the queue has it: in whole milliseconds."""
    return ceil_ms(at) / 1000


def _safe(value: object) -> object:
    """Return a field with its texts printable and short."""
    if isinstance(value, str):
        return printable(value)[:DETAIL_MAX]
    if isinstance(value, bytes | bytearray):
        return printable(value.decode("utf-8", "replace"))[:DETAIL_MAX]
    if isinstance(value, Mapping):
        return {key: _safe(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_safe(each) for each in value]
    plain = (
        value is None
        or isinstance(value, bool | float)
        or (isinstance(value, int) and value.bit_length() < 64)
    )
    return value if plain else _safe(str(value))


def short(text: str) -> str:
    """Return a reason, which may contain an endpoint's text, as one printable line of bounded length."""
    return printable(text)[:DETAIL_MAX]


def _short(value: object) -> str | None:
    return None if value is None else printable(str(value))[:TEXT_MAX]
