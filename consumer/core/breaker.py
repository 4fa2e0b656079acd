"""Hold requests back from an endpoint that fails, and let one probe find out when it is back.

    Closed --`failures` in a row--> Open --cooldown--> Probing --alive--> Closed (slow start)
                                      ^------- failing ---/

Data flow: flow.deliver keeps one state per endpoint; :func:`admit` before a request, :func:`settle` after.

Every change of state takes the next epoch. A request remembers the epoch in which it was admitted, and its
answer counts only while that epoch lasts: what was sent before the breaker opened can neither close it,
nor be taken for the probe, nor spoil a fresh start.

Source: REQUIREMENTS S3-1, S3-6; ARCHITECTURE "Breaker".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from consumer.core.errors import ConfigError

#: A cooldown is lengthened by up to this share, so that endpoints that fell together are not probed together.
COOLDOWN_JITTER_RATIO: Final = 0.1
#: Each failed probe doubles the next cooldown, up to ``cooldown_max_s``.
COOLDOWN_GROWTH: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker opens and how long it stays open."""

    failures: int = 5  #: failures in a row that open it; 0 switches the breaker off
    cooldown_s: float = 30.0  #: from opening to the first probe, at least; more than 0
    cooldown_max_s: float = 300.0  #: the longest cooldown after probes that failed
    probe_timeout_s: float = 40.0  #: a silent probe is lost after this; longer than any request's deadline

    def __post_init__(self) -> None:
        """Refuse values that could wedge the breaker."""
        if self.failures < 0:
            raise ConfigError(f"breaker.failures: {self.failures} is negative; 0 switches the breaker off")
        for name in ("cooldown_s", "cooldown_max_s", "probe_timeout_s"):
            if not 0 < getattr(self, name) <= 86_400:
                raise ConfigError(f"breaker.{name}: {getattr(self, name)} is not between 0 and 86400 s")


#: Named breaker policies. Source: REQUIREMENTS S3-6 (threshold, cooldown).
BREAKERS: Final[Mapping[str, BreakerPolicy]] = MappingProxyType(
    {
        "default": BreakerPolicy(),
        "high-traffic": BreakerPolicy(failures=10, cooldown_s=60.0),
        "low-traffic": BreakerPolicy(failures=3, cooldown_s=10.0),
        "critical": BreakerPolicy(failures=20, cooldown_s=120.0),
    }
)


@dataclass(frozen=True, slots=True)
class Closed:
    """All is well: every request may go."""

    failures: int = 0  #: counted failures since the last sign of life
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing is sent until the cooldown is over."""

    until: float  #: seconds on the caller's clock; the first request after it is the probe
    epoch: int
    openings: int = 1  #: how often it opened since it was last closed; 1-based, lengthens the cooldown


@dataclass(frozen=True, slots=True)
class Probing:
    """One request is out to learn whether the endpoint is back."""

    until: float  #: seconds on the caller's clock; a probe silent past this is lost, so send another
    epoch: int
    openings: int = 1


State: TypeAlias = Closed | Open | Probing


class Answer(NamedTuple):
    """How a request ended, as far as the breaker cares."""

    ok: bool  #: the endpoint showed life; False is a failure that counts
    epoch: int  #: of the state that :func:`admit` returned for this request


class Change(StrEnum):
    """What an answer did to the breaker; a closed set, used as a metric label."""

    NONE = "none"
    OPENED = "opened"
    CLOSED = "closed"  #: start slowly: see :func:`consumer.core.clock.slow_start`


def admit(state: State, now: float, policy: BreakerPolicy) -> tuple[State, bool]:
    """Return the next state and whether one request may be sent.

    The caller keeps the returned state's ``epoch`` with the request, for its :class:`Answer`.
    """
    match state:
        case Closed():
            return state, True
        case Open() | Probing() if not policy.failures:  # switched off meanwhile
            return Closed(epoch=state.epoch + 1), True
        case Open() | Probing() if now >= state.until:
            return Probing(now + policy.probe_timeout_s, state.epoch + 1, state.openings), True
        case Open() | Probing():
            return state, False


def settle(
    state: State, answer: Answer, now: float, policy: BreakerPolicy, sample: float
) -> tuple[State, Change]:
    """Return the state after a request's answer, and what changed.

    Args:
        state: The present state, which may be a later one than that which admitted the request.
        answer: How the request ended. An outcome that says nothing about the endpoint is not settled at
            all; if it was the probe, the probe's timeout sends another.
        now: Seconds, on the same clock as for :func:`admit`.
        policy: Of the endpoint.
        sample: Uniform in [0, 1), for the cooldown's jitter.
    """
    if answer.epoch != state.epoch:
        return state, Change.NONE
    match state:
        case Closed():
            return _settle_closed(state, answer, now, policy, sample)
        case Probing() if answer.ok:
            return Closed(epoch=state.epoch + 1), Change.CLOSED
        case Probing():
            openings = state.openings + 1
            until = now + cooldown_s(policy, openings, sample)
            return Open(until, state.epoch + 1, openings), Change.OPENED
        case Open():
            return state, Change.NONE


def _settle_closed(
    state: Closed, answer: Answer, now: float, policy: BreakerPolicy, sample: float
) -> tuple[State, Change]:
    if answer.ok:
        return (replace(state, failures=0) if state.failures else state), Change.NONE
    failures = state.failures + 1
    if policy.failures and failures >= policy.failures:
        return Open(now + cooldown_s(policy, 1, sample), state.epoch + 1), Change.OPENED
    return replace(state, failures=failures), Change.NONE


def cooldown_s(policy: BreakerPolicy, openings: int, sample: float) -> float:
    """Return how long the breaker stays open: doubling, lengthened by jitter, never under ``cooldown_s``.

    Args:
        policy: Of the endpoint.
        openings: How often it opened since it was last closed, 1-based.
        sample: Uniform in [0, 1).
    """
    longest = max(policy.cooldown_s, policy.cooldown_max_s)
    # Room for the jitter stays below the longest cooldown: endpoints at the limit are spread as well.
    limit = max(policy.cooldown_s, longest / (1 + COOLDOWN_JITTER_RATIO))
    grown = min(policy.cooldown_s * COOLDOWN_GROWTH ** min(openings - 1, 64), limit)
    return min(grown * (1 + COOLDOWN_JITTER_RATIO * sample), longest)


def held_until(state: State) -> float | None:
    """Return when a request that was not admitted should ask again, or None when it may ask now."""
    match state:
        case Closed():
            return None
        case Open() | Probing():
            return state.until
