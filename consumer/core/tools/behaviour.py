"""What an endpoint of ``leveret listen`` answers: healthy, slow, flaky, failing, gone, busy, holding.

Data flow: path + query -> behaviour_of -> Behaviour; Endpoint.answer -> Answer, which the edge gives.
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
BUSY: Final = 429  #: status that comes with Retry-After
GONE: Final = 410
REMEMBERED: Final = 100_000  #: ids whose attempts are counted; the oldest is forgotten first
LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What an endpoint does. The first of gone, hold, busy, flaky that has a say counts, else the status."""

    status: int = 200  #: answer where nothing else has a say
    delay_s: float = 0.0  #: before each answer
    fail_ratio: float = 0.0  #: part of all attempts that fail, 0 to 1
    gone_after: int | None = None  #: 410 from the request after so many on
    retry_after_s: int = 0  #: how long it is busy, and says so; 0 is never
    every: int = 10  #: it becomes busy with the first of so many requests
    hold: int | None = None  #: the first so many are answered together, once all are there; 0 never answers

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
"""By the first word of a path, whatever was asked for on the command line."""


def behaviour_of(path: str, query: Mapping[str, str], base: Behaviour) -> Behaviour:
    """Return how a path behaves: as a preset or as *base*, changed by what stands in its query.

    Args:
        path: Of the request, such as ``/slow/a``.
        query: Its parameters, named as the options: ``/slow?delay=0.5``. Others are let pass.
        base: For a path that no preset has.

    Raises:
        ConfigError: a parameter is no number, or out of its range.
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
        raise ConfigError(f"{_option(name)}: {text[:20]!r} is no number") from None


def fails(event_id: str, attempt: int, ratio: float) -> bool:
    """Say whether a flaky endpoint fails an attempt: the same on every run for the same id and attempt.

    Args:
        event_id: The ``webhook-id``.
        attempt: How often it came to this endpoint, 1-based.
        ratio: Part of all attempts that fail, 0 to 1.
    """
    digest = hashlib.sha256(f"{event_id}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < ratio * 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to answer, and when."""

    status: int
    delay_s: float = 0.0
    retry_after_s: int | None = None  #: of the header Retry-After
    held: bool = False  #: wait until :attr:`released` says so, or the caller goes away
    released: bool = False  #: all that are held, this one too, are answered now


@dataclass(slots=True)
class Endpoint:
    """What one path has seen so far."""

    requests: int = 0
    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _taken: int = 0  #: requests since it was last busy
    _busy_until: float = 0.0  #: Unix seconds

    def count(self, event_id: str) -> int:
        """Count one request and return which attempt of its event it is here, 1-based."""
        self.requests += 1
        attempt = self._attempts.pop(event_id, 0) + 1
        self._attempts[event_id] = attempt
        if len(self._attempts) > REMEMBERED:
            self._attempts.popitem(last=False)
        return attempt

    def answer(self, behaviour: Behaviour, event_id: str, attempt: int, now: float) -> Answer:
        """Say what the request that was counted last is answered.

        Args:
            behaviour: Of this path.
            event_id: The ``webhook-id``.
            attempt: As :meth:`count` returned it.
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
        """Return for how many whole seconds more it is busy; the first of each *every* makes it so."""
        if now >= self._busy_until:
            self._taken += 1
            if self._taken % behaviour.every != 1:
                return 0
            self._busy_until = now + behaviour.retry_after_s
        return ceil(self._busy_until - now)
