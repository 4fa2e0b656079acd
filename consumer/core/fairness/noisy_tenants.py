"""Tell which tenants crowd others out for so long that their events should wait elsewhere.

Data flow: what each tenant holds, what came of whom by which lane, once in a while -> NoiseMeter -> tenants
to be re-routed, each with the reason.

Source: Architecture, "Fairness"; fault 71.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from zlib import crc32

LEADS_RATIO: Final = 1 / 3
"""Of what comes by a lane; a tenant that is more of it fills the lane. Two may: half would let both go."""
RATE_OVER_S: Final = 5.0  #: what a rate is the moving mean of
LEAST_PER_S: Final = 0.001  #: a rate below is none


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimit:
    """What a tenant may bring before its events wait elsewhere. Nothing is ever dropped for it."""

    events_per_s: float | None = None  #: to this worker
    backlog: int | None = None  #: events that stand in its lane, estimated by its part of what comes


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTenantRule:
    """When a tenant is noisy."""

    held: float  #: deliveries in flight over which a tenant crowds others
    after_s: float = 10.0  #: for how long it has to
    most: int = 16  #: tenants that are re-routed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """What there is to see at one moment."""

    held: Mapping[str, int]  #: deliveries in flight by tenant
    backlogged: Collection[str] = ()  #: tenants that fill a lane which holds more than its window
    others_wait: bool = False  #: whether jobs of any kind wait of more than one tenant
    over_limit: Mapping[str, str] = field(default_factory=dict)  #: tenant -> which limit, in words


class Noisy(NamedTuple):
    """A tenant that is to be re-routed."""

    tenant: str
    reason: str


class NoisyTenantMeter:
    """Adds up for how long each tenant has been crowding others."""

    def __init__(self, rule: NoisyTenantRule) -> None:
        self.rule = rule
        self._noisy_s: dict[str, float] = {}

    def look(
        self, seen: LoadSample, passed_s: float, spilled: Collection[str], never: Collection[str] = ()
    ) -> list[Noisy]:
        """Return the tenants that are to be re-routed now, the noisiest first.

        A tenant crowds others while it holds more than its tenth and others wait, or while its backlog fills
        a lane: who waits behind it there cannot be seen, and waits however idle the worker is. A moment of
        quiet takes off what a moment of noise adds.

        Args:
            seen: This moment.
            passed_s: Seconds since the last look.
            spilled: Tenants that are re-routed already.
            never: Tenants that never are.
        """
        rule, noisy_s = self.rule, self._noisy_s
        holding = {t for t, held in seen.held.items() if held > rule.held and seen.others_wait}
        crowding = (holding | set(seen.backlogged) | seen.over_limit.keys()) - {*spilled, *never}
        for tenant in crowding | noisy_s.keys():
            so_far = noisy_s.get(tenant, 0.0) + (passed_s if tenant in crowding else -passed_s)
            noisy_s[tenant] = min(so_far, rule.after_s)
        self._noisy_s = {t: s for t, s in noisy_s.items() if s > 0 and t not in spilled}
        ready = [t for t in crowding if self._noisy_s.get(t, 0.0) >= rule.after_s]
        ready.sort(key=lambda t: (-seen.held.get(t, 0), t))
        room = max(0, rule.most - len(spilled))
        return [Noisy(tenant, _reason(tenant, seen, holding)) for tenant in ready[:room]]

    def noisy(self) -> int:
        """Return how many tenants crowd others now or did so a moment ago."""
        return len(self._noisy_s)


def _reason(tenant: str, seen: LoadSample, holding: Collection[str]) -> str:
    if tenant in seen.over_limit:
        return seen.over_limit[tenant]
    if tenant in holding:
        return f"holds {seen.held[tenant]} requests in flight while others wait"
    return "its backlog fills its lane"


@dataclass(slots=True)
class Came:
    """What came by the lanes since the last look."""

    counts: Mapping[str, int]  #: events by tenant: started, or in hand
    lane_of: Callable[[str], str]  #: empty where it is not known
    _by_lane: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tenant, count in self.counts.items():
            lane = self.lane_of(tenant)
            self._by_lane[lane] = self._by_lane.get(lane, 0) + count

    def share(self, tenant: str) -> float:
        """Return which part of its lane's events were the tenant's, 0 to 1."""
        total = self._by_lane.get(self.lane_of(tenant), 0)
        return self.counts.get(tenant, 0) / total if total else 0.0

    def leaders(self, least: float) -> dict[str, str]:
        """Return the tenants that fill their lane, with the lane; *least* events have to have come."""
        return {
            tenant: lane
            for tenant, count in self.counts.items()
            if count >= least and (lane := self.lane_of(tenant)) and self.share(tenant) > LEADS_RATIO
        }


class Rates:
    """Events a second of each tenant, in the mean of some seconds: a burst is no rate."""

    def __init__(self) -> None:
        self._per_s: dict[str, float] = {}

    def look(self, counts: Mapping[str, int], passed_s: float) -> Mapping[str, float]:
        """Take in how many events came of each tenant in the last *passed_s*; return the rates."""
        weight = min(1.0, passed_s / RATE_OVER_S)
        known = self._per_s
        rates = {
            tenant: (1 - weight) * known.get(tenant, 0.0) + weight * counts.get(tenant, 0) / passed_s
            for tenant in known.keys() | counts.keys()
        }
        self._per_s = {tenant: rate for tenant, rate in rates.items() if rate > LEAST_PER_S}
        return self._per_s


def over_limit(limit: TenantLimit, events_per_s: float, backlog: float | None) -> str | None:
    """Say which limit a tenant is over, in words, or None.

    Args:
        limit: What it may bring.
        events_per_s: What it brought lately.
        backlog: Its events that stand in its lane, where that is known.
    """
    if limit.events_per_s is not None and events_per_s > limit.events_per_s:
        return f"brings more than its {limit.events_per_s:g} events/s"
    if limit.backlog is not None and backlog is not None and backlog > limit.backlog:
        return f"has a backlog of more than {limit.backlog} events"
    return None


def spill_index(tenant: str, queues: int) -> int:
    """Return which of *queues* spill queues takes a tenant: every worker says the same.

    Two workers that bound a tenant to two queues would make two copies of each of its events.
    """
    return crc32(tenant.encode("utf-8", "surrogatepass")) % queues
