"""Hold requests back from an endpoint that fails, and let one probe find out when it is back.

    Closed --`failures` in a row, or `failure_ratio`--> Open --cooldown--> Probing --alive--> Closed, slowly
                                                         ^------- failing ---/                   /
                                                         ^------- the first requests fail ------/

Data flow: flow.endpoints keeps one state per endpoint; :func:`admit` before a request, :func:`settle` after.

One success is little evidence: with an endpoint that takes the probe and fails all other requests, the
breaker would open and close for ever. So until a request after the probe succeeds, two failures open the
breaker again, and the cooldown grows as if the probe had failed.

Every change of state takes the next epoch. A request remembers the epoch in which it was admitted, and its
answer counts only while that epoch lasts. So a request from before the opening cannot close the breaker, is
not taken for the probe, and does not spoil a fresh start.

Source: S3-1, S3-6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from consumer.core.errors import ConfigError

#: A cooldown is lengthened by up to this share, so that endpoints which failed together are probed apart.
COOLDOWN_JITTER_RATIO: Final = 0.1
#: Failures in a row that open the breaker again before any request but the probe succeeded.
UNPROVEN_FAILURES: Final = 2
#: A probe may take this much longer than a request, so that a late answer still counts.
PROBE_SLACK_S: Final = 5.0
#: A larger step of the wall clock counts as one; smaller differences come from travel times and head starts.
CLOCK_SLACK_S: Final = 5.0
#: A decision by hand takes the next multiple of this as its epoch.
BY_HAND_EPOCHS: Final = 1_000
#: Each failed probe doubles the next cooldown, up to ``cooldown_max_s``.
COOLDOWN_GROWTH: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker opens and how long it stays open."""

    failures: int = 5  #: failures in a row that open it; 0 switches the breaker off
    failure_ratio: float = 0.0  #: share of failures in the window that opens it, too; 0: no share does
    window_s: float = 60.0  #: the ratio is that of the last half of this time, or up to all of it
    min_requests: int = 20  #: least number of answers in the window for the ratio
    cooldown_s: float = 30.0  #: from opening to the first probe, at least; more than 0
    cooldown_max_s: float = 300.0  #: the longest cooldown after probes that failed
    probe_timeout_s: float = 40.0  #: a silent probe is lost after this; see :func:`outlasting`

    def __post_init__(self) -> None:
        """Refuse values that could wedge the breaker."""
        if self.failures < 0:
            raise ConfigError(f"breaker.failures: {self.failures} is negative; 0 switches the breaker off")
        if not 0 <= self.failure_ratio <= 1:
            raise ConfigError(f"breaker.failure_ratio: {self.failure_ratio} is not between 0 and 1")
        if self.min_requests < 1:
            raise ConfigError(f"breaker.min_requests: {self.min_requests} must be at least 1")
        for name in ("cooldown_s", "cooldown_max_s", "probe_timeout_s", "window_s"):
            if not 0 < getattr(self, name) <= 86_400:
                raise ConfigError(f"breaker.{name}: {getattr(self, name)} is not between 0 and 86400 s")


def outlasting(policy: BreakerPolicy, timeout_s: float) -> BreakerPolicy:
    """Return *policy* with a time-out of probes that is longer than any request lasts.

    A probe that is given up gets a successor, and its own answer no longer counts. So the breaker of an
    endpoint that answers later than that would stay open for ever.

    Args:
        policy: Of the endpoint.
        timeout_s: Total deadline of one of its requests.
    """
    least_s = timeout_s + PROBE_SLACK_S
    return policy if policy.probe_timeout_s >= least_s else replace(policy, probe_timeout_s=least_s)


#: Named breaker policies. Source: S3-6 (threshold, cooldown).
BREAKERS: Final[Mapping[str, BreakerPolicy]] = MappingProxyType(
    {
        "default": BreakerPolicy(),
        "high-traffic": BreakerPolicy(failures=10, cooldown_s=60.0),
        "low-traffic": BreakerPolicy(failures=3, cooldown_s=10.0),
        "critical": BreakerPolicy(failures=20, cooldown_s=120.0),
    }
)


class RecentAnswers(NamedTuple):
    """How many requests succeeded and failed in the present half of ``window_s``, and in the half before."""

    began: float  #: begin of the present half, seconds on the caller's clock
    alive: int = 0
    failed: int = 0
    alive_before: int = 0
    failed_before: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """Every request may go."""

    failures: int = 0  #: counted failures since the last sign of life
    epoch: int = 0
    openings: int = 0  #: how often it opened before the present slow start; 0 without a slow start
    proven: bool = False  #: True: a request after the probe succeeded
    recent: RecentAnswers | None = None  #: only kept where a ratio is set


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing is sent until the cooldown is over."""

    until: float  #: seconds on the caller's clock; the first request after it is the probe
    epoch: int
    openings: int = 1  #: how often it opened since it was last well; 1-based, lengthens the cooldown
    since: float = math.inf  #: seconds on the caller's clock; when it opened, infinity where unknown
    forced: bool = False  #: by an operator: there is no probe, only a reset closes it


@dataclass(frozen=True, slots=True)
class Probing:
    """One request is in flight to find out whether the endpoint is back."""

    until: float  #: seconds on the caller's clock; later the probe is lost, and another may go
    epoch: int
    openings: int = 1


State: TypeAlias = Closed | Open | Probing


class Answer(NamedTuple):
    """How a request ended, as far as it matters to the breaker."""

    ok: bool  #: the endpoint is alive; False is a failure that counts
    epoch: int  #: of the state that :func:`admit` returned for this request


class Change(StrEnum):
    """What an answer did to the breaker; a closed set, used as a metric label."""

    NONE = "none"
    OPENED = "opened"
    CLOSED = "closed"  #: the slow start begins: see :meth:`consumer.core.endpoint.pace.Pace.started_slowly`


def admit(state: State, now: float, policy: BreakerPolicy) -> tuple[State, bool]:
    """Return the next state and whether one request may be sent.

    The caller keeps the returned state's ``epoch`` with the request, for its :class:`Answer`.
    """
    match state:
        case Closed():
            return state, True
        case Open(forced=True):
            return state, False
        case Open() | Probing() if not policy.failures:  # switched off meanwhile
            return Closed(epoch=state.epoch + 1), True
        case Open() | Probing() if now >= due_at(state, policy) or _set_back(state, now, policy):
            return Probing(now + policy.probe_timeout_s, state.epoch + 1, state.openings), True
        case Open() | Probing():
            return state, False


def due_at(state: Open | Probing, policy: BreakerPolicy) -> float:
    """Return when the next probe may go, infinity for never; a cooldown shortened since holds no longer."""
    match state:
        case Open(forced=True):
            return math.inf
        case Open():
            return min(state.until, state.since + max(policy.cooldown_s, policy.cooldown_max_s))
        case Probing():
            return state.until


def _set_back(state: Open | Probing, now: float, policy: BreakerPolicy) -> bool:
    """Return whether the clock was set back since: the times of *state* would hold the endpoint too long."""
    if isinstance(state, Open) and state.since < math.inf:
        return now < state.since - CLOCK_SLACK_S
    longest_s = max(policy.cooldown_s, policy.cooldown_max_s)
    if isinstance(state, Probing):
        longest_s = policy.probe_timeout_s
    return state.until - now > longest_s + CLOCK_SLACK_S


def set_back(state: State, by_s: float) -> State:
    """Return the state after the wall clock was set back, or forward where *by_s* is negative."""
    match state:
        case Closed(recent=recent):
            if recent is None:
                return state
            return replace(state, recent=recent._replace(began=recent.began - by_s))
        case Open():
            return replace(state, until=state.until - by_s, since=state.since - by_s)
        case Probing():
            return replace(state, until=state.until - by_s)


def reset(state: State) -> Closed:
    """Return the state after an operator closed the breaker: earlier failures no longer count."""
    return Closed(epoch=by_hand(state.epoch))


def force(state: State) -> Open:
    """Return the state after an operator opened the breaker: nothing is sent, not even a probe."""
    if isinstance(state, Open) and state.forced:
        return state
    return Open(math.inf, by_hand(state.epoch), forced=True)


def by_hand(epoch: int) -> int:
    """Return the epoch of a decision by hand after *epoch*.

    The breaker of a worker that missed the decision may open and probe on; its epochs stay below this one.
    """
    return (epoch // BY_HAND_EPOCHS + 1) * BY_HAND_EPOCHS


def recovered(state: Closed) -> Closed:
    """Return the state after the slow start: the next opening begins with the shortest cooldown again."""
    return replace(state, openings=0, proven=False) if state.openings else state


def settle(
    state: State, answer: Answer, now: float, policy: BreakerPolicy, sample: float
) -> tuple[State, Change]:
    """Return the state after a request's answer, and what changed.

    Args:
        state: The present state, which may be later than the state that admitted the request.
        answer: How the request ended. An outcome that shows nothing about the endpoint is not settled at
            all; if it was the probe, another probe goes after the time-out.
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
            return Closed(epoch=state.epoch + 1, openings=state.openings), Change.CLOSED
        case Probing():
            return _open(state, state.openings + 1, now, cooldown_s(policy, state.openings + 1, sample))
        case Open():
            return state, Change.NONE


def _settle_closed(
    state: Closed, answer: Answer, now: float, policy: BreakerPolicy, sample: float
) -> tuple[State, Change]:
    recent = _counted(state.recent, answer, now, policy) if policy.failure_ratio else None
    if answer.ok:
        if not state.failures and (state.proven or not state.openings) and recent is state.recent:
            return state, Change.NONE
        return replace(state, failures=0, proven=state.openings > 0, recent=recent), Change.NONE
    failures, limit, openings = state.failures + 1, policy.failures, 1
    if state.openings and not state.proven:
        limit, openings = min(limit, UNPROVEN_FAILURES), state.openings + 1
    if policy.failures and (failures >= limit or _too_many(recent, policy)):
        return _open(state, openings, now, cooldown_s(policy, openings, sample))
    return replace(state, failures=failures, recent=recent), Change.NONE


def _open(state: State, openings: int, now: float, for_s: float) -> tuple[State, Change]:
    return Open(now + for_s, state.epoch + 1, openings, now), Change.OPENED


def _counted(
    recent: RecentAnswers | None, answer: Answer, now: float, policy: BreakerPolicy
) -> RecentAnswers:
    """Return the recent answers with one more; the halves move on with the time."""
    half_s = policy.window_s / 2
    if recent is None or not 0 <= now - recent.began < 2 * half_s:
        recent = RecentAnswers(now)
    elif now - recent.began >= half_s:
        recent = RecentAnswers(recent.began + half_s, 0, 0, recent.alive, recent.failed)
    if answer.ok:
        return recent._replace(alive=recent.alive + 1)
    return recent._replace(failed=recent.failed + 1)


def _too_many(recent: RecentAnswers | None, policy: BreakerPolicy) -> bool:
    if recent is None:
        return False
    failed = recent.failed + recent.failed_before
    total = failed + recent.alive + recent.alive_before
    return total >= policy.min_requests and failed >= policy.failure_ratio * total


def cooldown_s(policy: BreakerPolicy, openings: int, sample: float) -> float:
    """Return how long the breaker stays open: doubling, lengthened by jitter, never under ``cooldown_s``.

    Args:
        policy: Of the endpoint.
        openings: How often it opened since it was last well, 1-based.
        sample: Uniform in [0, 1).
    """
    longest = max(policy.cooldown_s, policy.cooldown_max_s)
    # Leave room for the jitter below the longest cooldown, so that endpoints at the limit are spread as well.
    limit = max(policy.cooldown_s, longest / (1 + COOLDOWN_JITTER_RATIO))
    grown = min(policy.cooldown_s * COOLDOWN_GROWTH ** min(openings - 1, 64), limit)
    return min(grown * (1 + COOLDOWN_JITTER_RATIO * sample), longest)
