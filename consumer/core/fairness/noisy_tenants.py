"""Find the tenants that delay others for so long that their events are rerouted.

Data flow: deliveries in flight by tenant, events by tenant and lane -> NoisyTenantMeter -> tenants to
reroute, each with the reason.

Source: fault 71.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from zlib import crc32

LEADS_RATIO: Final = 1 / 3
"""A tenant fills a lane when more than this part of the lane's events is its own.

Two tenants may fill one lane together: with a limit of a half, neither of them would count.
"""
RATE_OVER_S: Final = 5.0  #: a rate is the moving mean over this time
LEAST_PER_S: Final = 0.001  #: a lower rate counts as 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimit:
    """The events of one tenant above which it is rerouted; no limit drops any event."""

    events_per_s: float | None = None  #: to this worker; None: no limit
    #: events in its lane, estimated by its part of the lane's events; None: no limit
    backlog: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTenantRule:
    """When a tenant is noisy."""

    held: float  #: deliveries in flight above which a tenant delays others
    after_s: float = 10.0  #: seconds of delay after which the tenant is noisy
    most: int = 16  #: tenants that are rerouted at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """The load of one worker at one moment."""

    held: Mapping[str, int]  #: deliveries in flight by tenant
    backlogged: Collection[str] = ()  #: tenants that fill a lane with more messages than its window
    others_wait: bool = False  #: whether jobs of more than one tenant wait
    #: tenant -> the limit that it is over, in words
    over_limit: Mapping[str, str] = field(default_factory=dict)


class Noisy(NamedTuple):
    """A tenant to reroute."""

    tenant: str
    reason: str


class NoisyTenantMeter:
    """Adds up for how long each tenant has delayed others."""

    def __init__(self, rule: NoisyTenantRule) -> None:
        self.rule = rule
        self._noisy_s: dict[str, float] = {}

    def look(
        self, seen: LoadSample, passed_s: float, rerouted: Collection[str], never: Collection[str] = ()
    ) -> list[Noisy]:
        """Return the tenants to reroute now, the noisiest first.

        A tenant delays others while it holds more than the rule allows and others wait. It also does so while
        its backlog fills a lane: the worker cannot see the tenants behind it there, which wait even for an
        idle worker. A second without delay takes off what a second of delay adds.

        Args:
            seen: The load now.
            passed_s: Seconds since the last call.
            rerouted: Tenants that are rerouted already.
            never: Tenants that are never rerouted.
        """
        rule, noisy_s = self.rule, self._noisy_s
        holding = {t for t, held in seen.held.items() if held > rule.held and seen.others_wait}
        delaying = (holding | set(seen.backlogged) | seen.over_limit.keys()) - {*rerouted, *never}
        for tenant in delaying | noisy_s.keys():
            so_far = noisy_s.get(tenant, 0.0) + (passed_s if tenant in delaying else -passed_s)
            noisy_s[tenant] = min(so_far, rule.after_s)
        self._noisy_s = {t: s for t, s in noisy_s.items() if s > 0 and t not in rerouted}
        ready = [t for t in delaying if self._noisy_s.get(t, 0.0) >= rule.after_s]
        ready.sort(key=lambda t: (-seen.held.get(t, 0), t))
        room = max(0, rule.most - len(rerouted))
        return [Noisy(tenant, _reason(tenant, seen, holding)) for tenant in ready[:room]]


def _reason(tenant: str, seen: LoadSample, holding: Collection[str]) -> str:
    if tenant in seen.over_limit:
        return seen.over_limit[tenant]
    if tenant in holding:
        return f"holds {seen.held[tenant]} requests in flight while others wait"
    return "its backlog fills its lane"


@dataclass(slots=True)
class Came:
    """The events that came by the lanes since the last look."""

    counts: Mapping[str, int]  #: events by tenant: started, or in hand
    lane_of: Callable[[str], str]  #: the lane of a tenant; empty where it is not known
    _by_lane: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tenant, count in self.counts.items():
            lane = self.lane_of(tenant)
            self._by_lane[lane] = self._by_lane.get(lane, 0) + count

    def share(self, tenant: str) -> float:
        """Return the tenant's part of its lane's events, 0 to 1."""
        total = self._by_lane.get(self.lane_of(tenant), 0)
        return self.counts.get(tenant, 0) / total if total else 0.0

    def leaders(self, least: float) -> dict[str, str]:
        """Return the tenants that fill their lane with *least* events or more, each with the lane."""
        return {
            tenant: lane
            for tenant, count in self.counts.items()
            if count >= least and (lane := self.lane_of(tenant)) and self.share(tenant) > LEADS_RATIO
        }


class Rates:
    """Events per second of each tenant, as a moving mean, so that a burst counts little."""

    def __init__(self) -> None:
        self._per_s: dict[str, float] = {}

    def look(self, counts: Mapping[str, int], passed_s: float) -> Mapping[str, float]:
        """Take in the events of each tenant in the last *passed_s* seconds; return the rates."""
        weight = min(1.0, passed_s / RATE_OVER_S)
        known = self._per_s
        rates = {
            tenant: (1 - weight) * known.get(tenant, 0.0) + weight * counts.get(tenant, 0) / passed_s
            for tenant in known.keys() | counts.keys()
        }
        self._per_s = {tenant: rate for tenant, rate in rates.items() if rate > LEAST_PER_S}
        return self._per_s


def over_limit(limit: TenantLimit, events_per_s: float, backlog: float | None) -> str | None:
    """Return the limit that a tenant is over, in words; None where it is within its limits.

    Args:
        limit: The limits of the tenant.
        events_per_s: Its recent rate.
        backlog: Its events in its lane; None where that is not known.
    """
    if limit.events_per_s is not None and events_per_s > limit.events_per_s:
        return f"brings more than its {limit.events_per_s:g} events/s"
    if limit.backlog is not None and backlog is not None and backlog > limit.backlog:
        return f"has a backlog of more than {limit.backlog} events"
    return None


def spill_index(tenant: str, queues: int) -> int:
    """Return which of *queues* spill queues takes a tenant; every worker returns the same.

    Two bindings to two queues would make two copies of each event of the tenant.
    """
    return crc32(tenant.encode("utf-8", "surrogatepass")) % queues
