"""Sum up the steps of the last hour by minute and endpoint, and those of the last day by hour.

Data flow: rows of the history, each once -> :meth:`Activity.add` -> :meth:`Activity.hour`, overview and
endpoints of the API and the pages. :meth:`Activity.add_sum` takes in many rows at once, as a store has summed
them up. Memory grows with endpoints, not with rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from consumer.core.history.records import HistoryRow, Step
from consumer.core.history.sums import (
    AttemptSum,
    HourSum,
    ParkedSum,
    Streak,
    Sum,
    Waiting,
    latency_class,
    latency_of,
)

MINUTES: Final = 60
HOURS: Final = 24
MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0
_T = TypeVar("_T")
_K = TypeVar("_K", int, str)
_WAITS: Final = ("retry", "defer")
_ENDS: Final = (Step.PARKED, Step.CANCELLED)


@dataclass(slots=True)
class Tally:
    """The attempts of one endpoint within one minute, or of several together."""

    attempts: int = 0
    delivered: int = 0
    latency: Counter[int] = field(default_factory=Counter)  #: attempts by class of latency
    failures: Counter[str] = field(default_factory=Counter)  #: failed attempts by status or kind

    def count(self, latency_class: int, failure: str, attempts: int = 1) -> None:
        """Add attempts; *failure* is their status or kind, and empty if they delivered."""
        self.attempts += attempts
        self.latency[latency_class] += attempts
        if failure:
            self.failures[failure] += attempts
        else:
            self.delivered += attempts

    def merge(self, other: Tally) -> None:
        """Add the attempts of *other*."""
        self.attempts += other.attempts
        self.delivered += other.delivered
        self.latency.update(other.latency)
        self.failures.update(other.failures)

    def remove(self, other: Tally) -> None:
        """Take the attempts of *other* out again."""
        self.attempts -= other.attempts
        self.delivered -= other.delivered
        self.latency -= other.latency
        self.failures -= other.failures

    @property
    def success_ratio(self) -> float | None:
        """Share of attempts that delivered; None without an attempt."""
        return self.delivered / self.attempts if self.attempts else None

    @property
    def p95_s(self) -> float | None:
        """95th percentile of the latency in seconds; None without an attempt."""
        rest = math.ceil(0.95 * self.latency.total())
        for each in sorted(self.latency):
            rest -= self.latency[each]
            if rest <= 0:
                return latency_of(each)
        return None


class ParkedFlow(NamedTuple):
    """Deliveries that were parked, and parked deliveries that were sent again."""

    added: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One hour of some endpoints: sums, and one value for each minute, the oldest first."""

    total: Tally
    minutes: Sequence[Tally | None]  #: None: no attempt within that minute


class Failed(NamedTuple):
    """The last failed attempt of an endpoint."""

    seq: int  #: of its row
    at: float  #: Unix seconds


class Activity:
    """Takes each row once, in any order. Times are Unix seconds."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._minutes: dict[int, dict[str, Tally]] = {}
        self._whole: dict[int, Tally] = {}  #: all endpoints together, by minute
        self._hour: dict[str, Tally] = {}  #: all minutes together, by endpoint
        self._hours: dict[int, dict[str, list[int]]] = {}  #: attempts and delivered ones
        self._parked: dict[int, dict[str, list[int]]] = {}  #: by minute and subscription: added and left
        self._waiting: dict[str, dict[str, float]] = {}  #: by subscription and event: time of its last step
        self._failed: dict[str, Failed] = {}
        self._in_row: Counter[str] = Counter()
        self._trimmed_at = 0.0

    def add(self, seq: int, row: HistoryRow) -> None:
        """Count one row; rows of one delivery come in order."""
        if not row.subscription_id:
            return
        if row.step == Step.ATTEMPT:
            self._add_attempt(seq, row)
        elif row.step in (Step.PARKED, Step.REPLAYED):
            left = row.step == Step.REPLAYED
            self._count_parked(ParkedSum(int(row.at // MINUTE_S), row.subscription_id, not left, left))
        self._follow(row)

    def add_sum(self, each: Sum) -> None:
        """Count many rows at once; those of a later part come later."""
        match each:
            case AttemptSum():
                self._count(each)
            case ParkedSum():
                self._count_parked(each)
            case HourSum():
                self._count_hour(each)
            case Waiting():
                self._waiting.setdefault(each.target, {})[each.event_id] = each.at
            case Streak():
                self._join(each)

    def _add_attempt(self, seq: int, row: HistoryRow) -> None:
        delivered, target = row.reason == "delivered", row.subscription_id
        failure = "" if delivered else row.kind if row.status is None else str(row.status)
        latency = latency_class(row.latency_ms or 0.0)
        self._count(AttemptSum(int(row.at // MINUTE_S), target, latency, failure, 1))
        self._count_hour(HourSum(int(row.at // HOUR_S), target, 1, delivered))
        if delivered:
            self._in_row.pop(target, None)
            return
        self._in_row[target] += 1
        if target not in self._failed or self._failed[target].seq < seq:
            self._failed[target] = Failed(seq, row.at)

    def _count(self, some: AttemptSum) -> None:
        minute, target, latency, failure, attempts = some
        _tally(self._minutes.setdefault(minute, {}), target).count(latency, failure, attempts)
        _tally(self._whole, minute).count(latency, failure, attempts)
        _tally(self._hour, target).count(latency, failure, attempts)

    def _count_hour(self, some: HourSum) -> None:
        hour = self._hours.setdefault(some.hour, {}).setdefault(some.target, [0, 0])
        hour[0] += some.attempts
        hour[1] += some.delivered

    def _count_parked(self, some: ParkedSum) -> None:
        flow = self._parked.setdefault(some.minute, {}).setdefault(some.target, [0, 0])
        flow[0] += some.added
        flow[1] += some.left

    def _join(self, streak: Streak) -> None:
        if streak.has_delivered:
            self._in_row.pop(streak.target, None)
        if streak.failures:
            self._in_row[streak.target] += streak.failures
        if streak.seq is not None and streak.at is not None:
            self._failed[streak.target] = Failed(streak.seq, streak.at)

    def _follow(self, row: HistoryRow) -> None:
        """Keep account of the deliveries that wait for an attempt."""
        waits = row.step in (Step.DEFERRED, Step.REPLAYED) or (
            row.step == Step.ATTEMPT and row.reason in _WAITS
        )
        if waits:
            self._waiting.setdefault(row.subscription_id, {})[row.event_id] = row.at
        elif row.step == Step.ATTEMPT or row.step in _ENDS:
            self._waiting.get(row.subscription_id, {}).pop(row.event_id, None)

    def forget(self, now: float) -> None:
        """Drop everything that is older than the hour or the day before *now*."""
        first = _last_minutes(now)[0]
        for minute in [each for each in self._minutes if each < first]:
            for target, tally in self._minutes.pop(minute).items():
                self._hour[target].remove(tally)
                if not self._hour[target].attempts:
                    del self._hour[target]
        _drop_before(self._whole, first)
        _drop_before(self._parked, first)
        _drop_before(self._hours, int(now // HOUR_S) - HOURS + 1)
        if now - self._trimmed_at >= MINUTE_S:
            self._trimmed_at = now
            self._trim(now - HOURS * HOUR_S)

    def _trim(self, oldest: float) -> None:
        for target, events in list(self._waiting.items()):
            for event_id in [each for each, at in events.items() if at < oldest]:
                del events[event_id]
            if not events:
                del self._waiting[target]
        for target in [target for target, failed in self._failed.items() if failed.at < oldest]:
            del self._failed[target]
            self._in_row.pop(target, None)

    def hour(self, target: str) -> Tally:
        """Return the sum of one subscription since the last :meth:`forget`."""
        return self._hour.get(target) or Tally()

    def minutes(self, now: float, target: str) -> Sequence[Tally | None]:
        """Return each minute of the last hour of one subscription; None: no attempt."""
        return [self._minutes.get(each, {}).get(target) for each in _last_minutes(now)]

    def figures(self, now: float, targets: Collection[str] | None = None) -> Figures:
        """Return the hour up to *now* of some subscriptions together; None: of all."""
        total = Tally()
        minutes: list[Tally | None] = []
        for each in _last_minutes(now):
            minute = self._whole.get(each) if targets is None else self._sum(each, targets)
            minutes.append(minute)
            if minute is not None:
                total.merge(minute)
        return Figures(total=total, minutes=minutes)

    def _sum(self, minute: int, targets: Collection[str]) -> Tally | None:
        total = Tally()
        for tally in _of(self._minutes.get(minute, {}), targets):
            total.merge(tally)
        return total if total.attempts else None

    def day(self, now: float, targets: Collection[str]) -> Tally:
        """Return attempts and deliveries of the last 24 hours, the present hour included."""
        total = Tally()
        for hour in range(int(now // HOUR_S) - HOURS + 1, int(now // HOUR_S) + 1):
            for attempts, delivered in _of(self._hours.get(hour, {}), targets):
                total.merge(Tally(attempts, delivered))
        return total

    def hours(self, now: float) -> Sequence[Mapping[str, int]]:
        """Return the attempts of each subscription in each of the last 24 hours, the oldest first."""
        last = int(now // HOUR_S)
        found = (self._hours.get(hour, {}) for hour in range(last - HOURS + 1, last + 1))
        return [{target: attempts for target, (attempts, _) in hour.items()} for hour in found]

    def waiting(self, target: str) -> int:
        """Return the number of deliveries of a subscription that wait for an attempt."""
        return len(self._waiting.get(target, ()))

    def failed(self, target: str) -> Failed | None:
        """Return the last failed attempt of a subscription within a day."""
        return self._failed.get(target)

    def failures_in_row(self, target: str) -> int:
        """Return the number of failed attempts since the last one that delivered."""
        return self._in_row.get(target, 0)

    def parked_flow(self, now: float, targets: Collection[str] | None = None) -> Sequence[ParkedFlow]:
        """Return how many deliveries were parked and sent again, by minute of the last hour."""
        flows = []
        for minute in _last_minutes(now):
            found = self._parked.get(minute, {})
            chosen = list(found.values() if targets is None else _of(found, targets))
            flows.append(ParkedFlow(sum(each[0] for each in chosen), sum(each[1] for each in chosen)))
        return flows

    def last_failures(self, now: float, target: str) -> dict[str, float]:
        """Return the start of the last minute with each kind of failure, within the hour."""
        found: dict[str, float] = {}
        for each in _last_minutes(now):
            tally = self._minutes.get(each, {}).get(target)
            if tally is not None:
                found |= dict.fromkeys(tally.failures, each * MINUTE_S)
        return found


def _tally(tallies: dict[_K, Tally], key: _K) -> Tally:
    """Return the tally of *key*, a new one at its first use; ``setdefault`` would make one at each."""
    found = tallies.get(key)
    if found is None:
        found = tallies[key] = Tally()
    return found


def _last_minutes(now: float) -> range:
    last = int(now // MINUTE_S)
    return range(last - MINUTES + 1, last + 1)


def _drop_before(kept: dict[int, _T], oldest: int) -> None:
    for each in [each for each in kept if each < oldest]:
        del kept[each]


def _of(found: dict[str, _T], targets: Collection[str]) -> Iterator[_T]:
    if len(targets) < len(found):
        return (found[each] for each in targets if each in found)
    return (value for each, value in found.items() if each in targets)
