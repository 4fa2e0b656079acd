"""Show the subscriptions in most trouble, each with series of its own. Belongs to the Observer.

Only a delivery that fails or is held costs anything here. Each endpoint counts its successes anyway, and the
counts are read once a second for the few subscriptions that have series.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from consumer.core.endpoint.most_troubled import Holder, choose
from consumer.core.endpoint.trouble import SLICE_S, Trouble, failure_cause
from consumer.core.endpoint.trouble_book import EndpointNow, TroubleBook
from consumer.core.model import Outcome
from metrics.series import OTHER, Series, own_label

BREAKER: Final[Mapping[str, int]] = {"closed": 0, "probing": 1, "open": 2}
RESULTS: Final = ("delivered", "failed")

Totals = tuple[int, int]
"""Requests of all subscriptions since the start: delivered, and failed."""


class _Shown:
    """The series of one label value, and the requests that they have counted."""

    def __init__(self, series: Series, label: str, counted: Totals) -> None:
        self._series = series
        self.label = label
        self.cause: str | None = None
        self.well_since: float | None = None  #: Unix seconds; None: it is in trouble
        self._counted = counted
        self._attempts = [series.subscription_attempts.labels(label, result) for result in RESULTS]
        self._latency = series.subscription_latency.labels(label)
        self._waiting = series.subscription_waiting.labels(label)
        self._parked = series.subscription_parked.labels(label)
        self._breaker = series.subscription_breaker.labels(label)

    def count(self, totals: Totals) -> Totals:
        """Add the requests since the last call; return how many they were."""
        grown = []
        for child, now, before in zip(self._attempts, totals, self._counted, strict=True):
            more = now - before if now >= before else now  # a changed URL makes a new endpoint
            child.inc(more)
            grown.append(more)
        self._counted = totals
        return grown[0], grown[1]

    def add(self, totals: Totals) -> None:
        """Add so many requests; a negative number counts as none."""
        for child, more in zip(self._attempts, totals, strict=True):
            child.inc(max(more, 0))

    def gauge(self, p95_s: float, waiting: int, parked: int, breaker: int) -> None:
        """Bring the gauges up to date."""
        self._latency.set(p95_s)
        self._waiting.set(waiting)
        self._parked.set(parked)
        self._breaker.set(breaker)

    def judge(self, trouble: Trouble | None, now: float) -> None:
        """Show the trouble, or that it is over since *now* (Unix seconds)."""
        gauge = self._series.subscription_trouble
        if trouble is not None:
            if self.cause is not None and self.cause != trouble.cause:
                gauge.remove(self.label, self.cause)
            self.cause, self.well_since = trouble.cause, None
            gauge.labels(self.label, trouble.cause).set(trouble.share)
        elif self.cause is not None:
            self.well_since = now if self.well_since is None else self.well_since
            gauge.labels(self.label, self.cause).set(0)

    def end(self) -> None:
        """Remove the series."""
        self._series.end_subscription(self.label)
        if self.cause is not None:
            self._series.subscription_trouble.remove(self.label, self.cause)


class Troubles:
    """The series of subscriptions in trouble.

    Attributes:
        book: Takes what happens to deliveries.
        ajar: Since when each breaker that is not closed has been so, in Unix seconds by subscription id.
    """

    def __init__(self, series: Series, places: int, totals: Callable[[], Totals]) -> None:
        """Begin.

        Args:
            series: Every metric of this worker.
            places: Subscriptions that have series of their own, at most.
            totals: Returns the requests of all subscriptions.
        """
        self.book = TroubleBook()
        self.ajar: dict[str, float] = {}
        self._series = series
        self._places = places
        self._totals = totals
        self._shown: dict[str, _Shown] = {}  #: by subscription id
        self._others = _Shown(series, OTHER, (0, 0))
        self._other_p95_s = 0.0
        self._counted: Totals = (0, 0)
        self._chosen = 0.0  #: Unix seconds

    def failed(self, subscription: str, outcome: Outcome) -> None:
        """Count a failed attempt."""
        self.book.failed(subscription, failure_cause(outcome.kind, outcome.status))

    def breaker_changed(self, subscription: str, after: str, now: float) -> None:
        """Take a change of a breaker, at *now* (Unix seconds)."""
        if after != "closed":
            self.ajar.setdefault(subscription, now)
        elif self.ajar.pop(subscription, None) is not None:
            self.book.freed(subscription)

    def wanted(self, now: float) -> Collection[str]:
        """Return the subscriptions whose endpoints :meth:`look` needs at *now* (Unix seconds)."""
        some = {**dict.fromkeys(self._shown), **dict.fromkeys(self.book.newcomers())}
        return {**some, **dict.fromkeys(self.book.suspects())} if self._is_due(now) else some

    def look(
        self, endpoints: Mapping[str, EndpointNow], now: float, is_set_aside: Callable[[str], bool]
    ) -> None:
        """Bring all series up to date; choose anew, and look for the oldest open breaker, once in 15 s.

        Args:
            endpoints: Of the subscriptions that are :meth:`wanted`; one that was removed is missing.
            now: Unix seconds.
            is_set_aside: Returns whether the breaker of a subscription is open by a decision, so that nobody
                waits for its endpoint.
        """
        new = self.book.begin(endpoints, now)
        for gone in [each for each in self._shown if each not in endpoints]:
            self._shown.pop(gone).end()
        if self._is_due(now):
            self._chosen = now
            self._choose(endpoints, self.book.judged(endpoints, now, new), now)
            opened = (since for each, since in self.ajar.items() if not is_set_aside(each))
            self._series.oldest_open.set(min(opened, default=0))
        self._show(endpoints, now)
        oldest_at = self.book.oldest_waiting_at(now)
        self._series.oldest_waiting.set(0 if oldest_at is None else oldest_at)
        self._series.disabled_itself.set(self.book.disabled_count)

    def _is_due(self, now: float) -> bool:
        return not 0 <= now - self._chosen < SLICE_S

    def _show(self, endpoints: Mapping[str, EndpointNow], now: float) -> None:
        book, waiting, ajar = self.book, self.book.waiting(now), len(self.ajar)
        totals = self._totals()
        delivered, failed = (totals[n] - self._counted[n] for n in (0, 1))
        self._counted = totals
        for each, shown in self._shown.items():
            endpoint, waits = endpoints[each], book.waiting_of(each, now)
            grown = shown.count((endpoint.successes, endpoint.failures))
            shown.gauge(endpoint.p95_s, waits, book.parked_of(each), BREAKER[endpoint.state])
            waiting, delivered, failed = waiting - waits, delivered - grown[0], failed - grown[1]
            ajar -= each in self.ajar
        self._others.add((delivered, failed))
        parked = book.most_parked(self._shown)
        self._others.gauge(self._other_p95_s, max(waiting, 0), parked, ajar)

    def _choose(
        self, endpoints: Mapping[str, EndpointNow], troubles: Mapping[str, Trouble], now: float
    ) -> None:
        for each, shown in self._shown.items():
            shown.judge(troubles.get(each), now)
        others = {each: trouble.weight for each, trouble in troubles.items() if each not in self._shown}
        holders = {each: _holder(shown, troubles.get(each), now) for each, shown in self._shown.items()}
        choice = choose(self._places, holders, others)
        for each in choice.leaves:
            self._shown.pop(each).end()
        for each in choice.comes:
            endpoint = endpoints[each]
            label = own_label(f"{endpoint.tenant}/{endpoint.name}")
            shown = _Shown(self._series, label, (endpoint.successes, endpoint.failures))
            shown.judge(troubles[each], now)
            self._shown[each] = shown
        self._series.in_trouble.set(len(troubles))
        rest = (endpoints[each].p95_s for each in troubles if each not in self._shown)
        self._other_p95_s = max(rest, default=0.0)


def _holder(shown: _Shown, trouble: Trouble | None, now: float) -> Holder:
    if trouble is not None:
        return Holder(trouble.weight)
    return Holder(0.0, 0.0 if shown.well_since is None else max(now - shown.well_since, 0.0))
