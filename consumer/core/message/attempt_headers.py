"""Write the attempts of a delivery into headers, including those before a replay.

Data flow: Attempt -> :func:`write_attempts`, :func:`write_waits` -> headers -> :func:`read_attempts`;
at a replay -> :class:`Earlier` -> :func:`earlier_headers` -> :func:`read_earlier`.

A worker of the release before reads ``leveret-attempts`` and ignores the other headers. It writes none of
them, so only the attempts before its own are then lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from consumer.core.model import Attempt, OutcomeKind
from consumer.core.text.milliseconds import ceil_ms, seconds_of

KEPT_EARLIER: Final = 128
"""A replay carries at most this many attempts of before, the newest ones; the others are only counted."""

EARLIER = "leveret-earlier"
_EARLIER_MADE = "leveret-earlier-made"
_FIRST_ARRIVED = "leveret-first-arrived"
_REPLAYS = "leveret-replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The attempts and times of a delivery before its last replay."""

    replays: int  #: how often it was replayed so far; at least 1
    first_arrived_at: float  #: Unix seconds when a worker first took the event
    attempts: tuple[Attempt, ...] = ()  #: the newest ones, oldest first; each names its replay
    attempts_made: int = 0  #: counts all, even those no longer remembered


def write_attempts(attempts: Sequence[Attempt]) -> str:
    """Write attempts as one header; :func:`read_attempts` reads them. Waits have a header of their own."""
    return ";".join(",".join(map(str, _fields(a))) for a in attempts)


def read_attempts(text: str, waits: str = "") -> tuple[Attempt, ...]:
    """Read what :func:`write_attempts` and :func:`write_waits` wrote.

    Raises:
        ValueError: it is something else.
    """
    attempts = tuple(_attempt(*part.split(",")) for part in filter(None, text.split(";")))
    chosen = waits.split(",")
    if not waits or len(chosen) != len(attempts):
        return attempts
    return tuple(a._replace(wait_s=_wait_s(ms)) for a, ms in zip(attempts, chosen, strict=True))


def write_waits(attempts: Sequence[Attempt]) -> str:
    """Write the wait that was chosen after each of *attempts*; empty if none was."""
    waits = [_wait_ms(a) for a in attempts]
    return ",".join(waits) if any(waits) else ""


def earlier_headers(earlier: Earlier) -> dict[str, object]:
    """Write the attempts and times before a replay."""
    headers: dict[str, object] = {
        _REPLAYS: earlier.replays,
        _FIRST_ARRIVED: ceil_ms(earlier.first_arrived_at),
    }
    if earlier.attempts_made:
        headers[_EARLIER_MADE] = earlier.attempts_made
        kept = earlier.attempts[-KEPT_EARLIER:]
        headers[EARLIER] = ";".join(",".join(map(str, (*_fields(a), _wait_ms(a), a.replay))) for a in kept)
    return headers


def read_earlier(headers: Mapping[str, Any]) -> Earlier | None:
    """Read what :func:`earlier_headers` wrote; None if the delivery was never replayed.

    Raises:
        ValueError, TypeError, KeyError: it is something else.
    """
    if _REPLAYS not in headers:
        return None
    attempts = []
    for part in filter(None, headers.get(EARLIER, "").split(";")):
        *fields, wait, replay = part.split(",")
        attempts.append(_attempt(*fields)._replace(wait_s=_wait_s(wait), replay=int(replay)))
    return Earlier(
        replays=int(headers[_REPLAYS]),
        first_arrived_at=seconds_of(headers[_FIRST_ARRIVED]),
        attempts=tuple(attempts),
        attempts_made=int(headers.get(_EARLIER_MADE, 0)),
    )


def _fields(a: Attempt) -> tuple[object, ...]:
    return (
        a.number,
        ceil_ms(a.at),
        a.kind.value,
        "" if a.status is None else a.status,
        ceil_ms(a.duration_s),
    )


def _attempt(*fields: str) -> Attempt:
    number, at, kind, status, duration = fields
    return Attempt(
        number=int(number),
        at=int(at) / 1000,
        kind=OutcomeKind(kind),
        status=int(status) if status else None,
        duration_s=int(duration) / 1000,
    )


def _wait_ms(attempt: Attempt) -> str:
    return "" if attempt.wait_s is None else str(ceil_ms(attempt.wait_s))


def _wait_s(ms: str) -> float | None:
    return int(ms) / 1000 if ms else None
