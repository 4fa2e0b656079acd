"""Answers of the endpoints of ``leveret listen``: healthy, slow, flaky, failing, gone, busy, holding.

Data flow: path + query -> behaviour_of -> Behaviour; Endpoint.answer -> Answer, which the edge sends.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil, isfinite
from types import MappingProxyType
from typing import Final

from consumer.core.errors import ConfigError

FAILING: Final = 503  #: status of a flaky endpoint's failures
BUSY: Final = 429  #: status sent with Retry-After
GONE: Final = 410
REMEMBERED: Final = 100_000  #: ids whose attempts are counted; the oldest are dropped first
LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of an endpoint. Of gone, hold, busy and flaky, the first that applies decides."""

    status: int = 200  #: the status if none of them applies
    delay_s: float = 0.0  #: before each answer
    fail_ratio: float = 0.0  #: share of all attempts that fail, 0 to 1
    gone_after: int | None = None  #: requests after which every answer is 410
    retry_after_s: int = 0  #: how long the endpoint is busy and announces it; 0 is never
    every: int = 10  #: the first of so many requests makes the endpoint busy
    hold: int | None = None  #: the first so many requests are answered together, after the last; 0: never

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            ConfigError: a number is out of its range.
        """
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and least <= value <= most):
                raise ConfigError(f"{_option(name)}: must be {least:g} to {most:g}, got {value:g}")


_BOUNDS: Final = (
    ("status", 200, 599),
    ("delay_s", 0, LONGEST_S),
    ("fail_ratio", 0, 1),
    ("gone_after", 0, 10**9),
    ("retry_after_s", 0, LONGEST_S),
    ("every", 2, 10**9),
    ("hold", 0, 10**6),
)

PRESETS: Final[Mapping[str, Behaviour]] = MappingProxyType(
    {
        "healthy": Behaviour(),
        "slow": Behaviour(delay_s=2.0),
        "flaky": Behaviour(fail_ratio=0.3),
        "dead": Behaviour(status=FAILING),
        "gone": Behaviour(gone_after=0),
        "busy": Behaviour(retry_after_s=5),
        "hold": Behaviour(hold=0),
    }
)
"""Behaviours by the first segment of a path; they override the options of the command line."""


def behaviour_of(path: str, query: Mapping[str, str], base: Behaviour) -> Behaviour:
    """Return the behaviour of a path: a preset or *base*, with the changes of its query.

    Args:
        path: Path of the request, such as ``/slow/a``.
        query: Its parameters, named like the options: ``/slow?delay=0.5``. Other parameters are ignored.
        base: The behaviour of a path without a preset.

    Raises:
        ConfigError: a parameter is not a number, or out of its range.
    """
    first = path.strip("/").partition("/")[0]
    changes: dict[str, float] = {}
    for name in (each.name for each in fields(Behaviour)):
        text = query.get(_option(name).removeprefix("--"))
        if text is not None:
            changes[name] = _number(name, text)
    found = PRESETS.get(first, base)
    return replace(found, **changes) if changes else found  # type: ignore[arg-type]  # numbers, as checked


def _option(name: str) -> str:
    return "--" + name.removesuffix("_s").replace("_", "-")


def _number(name: str, text: str) -> float:
    try:
        return float(text) if name in ("delay_s", "fail_ratio") else int(text)
    except ValueError:
        raise ConfigError(f"{_option(name)}: {text[:20]!r} is not a number; write one such as 2") from None


def fails(event_id: str, attempt: int, ratio: float) -> bool:
    """Return whether a flaky endpoint fails an attempt; the same id and attempt always give the same result.

    Args:
        event_id: The ``webhook-id``.
        attempt: Number of the attempt at this endpoint, 1-based.
        ratio: Share of all attempts that fail, 0 to 1.
    """
    digest = hashlib.sha256(f"{event_id}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < ratio * 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer and its time."""

    status: int
    delay_s: float = 0.0
    retry_after_s: int | None = None  #: value of the header Retry-After
    held: bool = False  #: the answer waits until one with :attr:`released`, or until the caller disconnects
    released: bool = False  #: all held answers, including this one, are sent now


@dataclass(slots=True)
class Endpoint:
    """The requests that one path has received so far."""

    requests: int = 0
    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _taken: int = 0  #: requests since it was last busy
    _busy_until: float = 0.0  #: Unix seconds

    def count(self, event_id: str) -> int:
        """Count one request and return the number of this event's attempt here, 1-based."""
        self.requests += 1
        attempt = self._attempts.pop(event_id, 0) + 1
        self._attempts[event_id] = attempt
        if len(self._attempts) > REMEMBERED:
            self._attempts.popitem(last=False)
        return attempt

    def answer(self, behaviour: Behaviour, event_id: str, attempt: int, now: float) -> Answer:
        """Return the answer to the request that was counted last.

        Args:
            behaviour: The behaviour of this path.
            event_id: The ``webhook-id``.
            attempt: The result of :meth:`count`.
            now: Unix seconds.
        """
        delay_s = behaviour.delay_s
        if behaviour.gone_after is not None and self.requests > behaviour.gone_after:
            return Answer(status=GONE, delay_s=delay_s)
        if behaviour.hold is not None and (behaviour.hold == 0 or self.requests <= behaviour.hold):
            last = self.requests == behaviour.hold
            return Answer(status=behaviour.status, delay_s=delay_s, held=True, released=last)
        if behaviour.retry_after_s and (rest_s := self._busy_s(behaviour, now)) > 0:
            return Answer(status=BUSY, delay_s=delay_s, retry_after_s=rest_s)
        if behaviour.fail_ratio and fails(event_id, attempt, behaviour.fail_ratio):
            return Answer(status=FAILING, delay_s=delay_s)
        return Answer(status=behaviour.status, delay_s=delay_s)

    def _busy_s(self, behaviour: Behaviour, now: float) -> int:
        """Return for how many more whole seconds the endpoint is busy; 0 if it is not."""
        if now >= self._busy_until:
            self._taken += 1
            if self._taken % behaviour.every != 1:
                return 0
            self._busy_until = now + behaviour.retry_after_s
        return ceil(self._busy_until - now)
