"""Sum up the steps of the last hour by minute and endpoint, and those of the last day by hour.

Data flow: rows of the history, each once -> :meth:`Activity.add` -> :meth:`Activity.hour_of`, overview and
endpoints of the API and the pages. Memory grows with endpoints, not with rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from consumer.core.history.records import HistoryRow, Step

MINUTES: Final = 60
HOURS: Final = 24
MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0
FINENESS: Final = 10.0
"""Latencies are counted in classes of e^(1/10): a percentile is exact to 5 %."""
_LEAST_MS: Final = 0.1
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

    def count(self, latency_class: int, failure: str) -> None:
        """Add one attempt; *failure* is its status or kind, and empty if it delivered."""
        self.attempts += 1
        self.latency[latency_class] += 1
        if failure:
            self.failures[failure] += 1
        else:
            self.delivered += 1

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
                return round(math.exp((each + 0.5) / FINENESS) * _LEAST_MS / 1000, 6)
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
            minute = self._parked.setdefault(int(row.at // MINUTE_S), {})
            flow = minute.setdefault(row.subscription_id, [0, 0])
            flow[row.step == Step.REPLAYED] += 1
        self._follow(row)

    def _add_attempt(self, seq: int, row: HistoryRow) -> None:
        delivered, target = row.reason == "delivered", row.subscription_id
        failure = "" if delivered else row.kind if row.status is None else str(row.status)
        latency, minute = _latency_class(row.latency_ms or 0.0), int(row.at // MINUTE_S)
        _tally(self._minutes.setdefault(minute, {}), target).count(latency, failure)
        _tally(self._whole, minute).count(latency, failure)
        _tally(self._hour, target).count(latency, failure)
        hour = self._hours.setdefault(int(row.at // HOUR_S), {}).setdefault(target, [0, 0])
        hour[0] += 1
        hour[1] += delivered
        if delivered:
            self._in_row.pop(target, None)
            return
        self._in_row[target] += 1
        if target not in self._failed or self._failed[target].seq < seq:
            self._failed[target] = Failed(seq, row.at)

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


def _latency_class(latency_ms: float) -> int:
    return int(math.log(max(latency_ms, _LEAST_MS) / _LEAST_MS) * FINENESS)


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
