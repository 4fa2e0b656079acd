"""Count per tenant. Belongs to the Observer, which alone calls it.

A job costs one addition, as it is counted on the path of every message. The gauges follow once a second. Once
a minute the busiest tenants get the series of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import Gauge

from consumer.core.fairness.queue import Standing, priority_after
from consumer.core.fairness.top_tenants import exchanges
from metrics.series import MAX_OTHERS, OTHER, Series, own_label, tenant_of
from metrics.tally import Tally

EXCHANGE_S = 60.0
KEPT_S = 86_400.0  #: a tenant with a parked entry keeps its series for so long: the alert looks so far back
REST = "\0rest"  #: no tenant is named so
IDLE = Standing(0, 0, 0)  #: of a tenant that waits for nothing


@dataclass(slots=True)
class _Meter:
    """The series of one label value, looked up once."""

    jobs: Tally
    last_job: Gauge
    waiting: Gauge
    rounds: Gauge
    priority: Gauge
    consecutive: Gauge
    parked: Gauge
    in_flight: Gauge
    seen: int = 0  #: jobs at the last look
    before: int = 0  #: jobs a minute ago

    def show(self, standing: Standing, now: float) -> None:
        """Bring the gauges up to date; *now* in Unix seconds."""
        if self.jobs.count != self.seen:
            self.seen = self.jobs.count
            self.last_job.set(int(now))
        self.waiting.set(standing.waiting)
        self.rounds.set(standing.rounds)
        self.priority.set(priority_after(standing.rounds))
        self.consecutive.set(standing.consecutive)

    def in_minute(self) -> int:
        """Return how many jobs were counted since the minute began."""
        return self.jobs.count - self.before

    def begin_minute(self) -> None:
        """Count from here on."""
        self.before = self.jobs.count


class Tenants:
    """The tenants' series. Only a tenant with a subscription gets a label; no producer can make one."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._meters: dict[str, _Meter] = {}  #: by label
        self.jobs: dict[
            str, Tally
        ] = {}  #: by tenant, of those with a label of their own; of the others under REST
        self._others: dict[str, int] = {}  #: jobs since the last exchange, of tenants without a label
        self._exchanged = 0.0  #: Unix seconds
        self._now = 0.0  #: Unix seconds at the last look
        #: By label: how many were parked and not replayed, and when the last one was, in Unix seconds.
        self._parked: dict[str, tuple[int, float]] = {}
        self._sized: frozenset[str] = frozenset()  #: labels with entries in the index
        self._rerouted: dict[str, int] = {OTHER: 0}  #: tenants, by the labels that have the series

    def know(self, tenants: Iterable[str]) -> None:
        """Begin the series of *tenants* at 0: a counter that begins at 60 hides its first sixty."""
        for tenant in tenants:
            self._meter(self._series.tenant_label(tenant))

    def job(self, tenant: str) -> None:
        """Count one started job of a tenant whose label is not in :attr:`jobs` yet."""
        label = self._series.tenant_label(tenant)
        self._meter(label).jobs.inc()
        if label == OTHER and (tenant in self._others or len(self._others) < MAX_OTHERS):
            self._others[tenant] = self._others.get(tenant, 0) + 1

    def parked(self, tenant: str) -> None:
        """Count a delivery that was parked."""
        label = self._label(tenant)
        self._series.tenant_parked.labels(label).inc()
        self._parked[label] = (self._parked.get(label, (0, 0.0))[0] + 1, self._now)

    def replayed(self, tenant: str) -> None:
        """Count a parked delivery that was replayed."""
        label = self._label(tenant)
        self._series.tenant_replayed.labels(label).inc()
        if label in self._parked:
            count, at = self._parked.pop(label)
            if count > 1:
                self._parked[label] = (count - 1, at)

    def sized(self, sizes: Mapping[str, int]) -> None:
        """Take how many entries of each tenant are parked now.

        ``other`` shows the most of any one tenant without a label, not their sum: the alert is about one
        tenant.
        """
        by_label: dict[str, int] = {}
        for tenant, size in sizes.items():
            label = self._label(tenant)
            by_label[label] = max(size, by_label.get(label, 0))
        for label in by_label.keys() - self._meters.keys():
            self._meter(label)
        for label, meter in self._meters.items():
            meter.parked.set(by_label.get(label, 0))
        self._sized = frozenset(by_label)

    def look(self, standings: Mapping[str, Standing], now: float) -> None:
        """Bring the gauges up to date.

        Args:
            standings: Of the tenants that wait, by what their messages say.
            now: Unix seconds.
        """
        self._now = now
        by_label: dict[str, Standing] = {}
        for tenant, standing in standings.items():
            label = self._label(tenant)
            by_label[label] = standing.beside(by_label.get(label, IDLE))
        for label in by_label.keys() - self._meters.keys():
            self._meter(label)
        for label, meter in self._meters.items():
            meter.show(by_label.get(label, IDLE), now)
        if not 0 <= now - self._exchanged < EXCHANGE_S:
            self._exchanged = now
            self._exchange()

    def hold(self, held: Mapping[str, int], rerouted: Collection[str]) -> None:
        """Show the deliveries in flight of each tenant, and the tenants that are rerouted.

        Few tenants are ever rerouted, so only they have that series; it ends a minute after the return.
        """
        in_flight: Counter[str] = Counter()
        for tenant, deliveries in held.items():
            in_flight[self._label(tenant)] += deliveries
        for label, meter in self._meters.items():
            meter.in_flight.set(in_flight[label])
        around = Counter(map(self._label, rerouted))
        self._rerouted = {label: around[label] for label in {*self._rerouted, *around}}
        for label, tenants in self._rerouted.items():
            self._series.tenant_rerouted.labels(label).set(tenants)

    def _exchange(self) -> None:
        """Give the labels to the tenants that were busiest in the last minute."""
        meters = self._meters
        self._parked = {label: seen for label, seen in self._parked.items() if self._now - seen[1] < KEPT_S}
        staying = {OTHER, *self._parked, *self._sized}
        own = {tenant_of(of): m.in_minute() for of, m in meters.items() if of not in staying}
        for leaves, comes in exchanges(own, self._others):
            self._rerouted.pop(own_label(leaves), None)
            self._series.replace_tenant(leaves, comes, meters.pop(own_label(leaves)).jobs)
            del self.jobs[leaves]
            self._meter(own_label(comes))
        for meter in meters.values():
            meter.begin_minute()
        self._others.clear()
        for label in [label for label, tenants in self._rerouted.items() if not tenants and label != OTHER]:
            del self._rerouted[label]
            self._series.tenant_rerouted.remove(label)

    def _label(self, tenant: str) -> str:
        label = own_label(tenant)
        return label if label in self._meters else OTHER

    def _meter(self, label: str) -> _Meter:
        known = self._meters.get(label)
        if known is not None:
            return known
        s = self._series
        s.tenant_parked.labels(label)
        s.tenant_replayed.labels(label)
        meter = self._meters[label] = _Meter(
            jobs=s.tally(s.tenant_jobs.labels(label)),
            last_job=s.tenant_last_job.labels(label),
            waiting=s.tenant_waiting.labels(label),
            rounds=s.tenant_rounds.labels(label),
            priority=s.tenant_priority.labels(label),
            consecutive=s.tenant_consecutive.labels(label),
            parked=s.tenant_parked_entries.labels(label),
            in_flight=s.tenant_in_flight.labels(label),
        )
        self.jobs[REST if label == OTHER else tenant_of(label)] = meter.jobs
        return meter
