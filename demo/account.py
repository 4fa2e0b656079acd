"""Keep the book of the demo: the deliveries that each event owes, and where each of them ended. Pure.

Data flow: made, confirmed (publisher) + requests (endpoints' records) + parked entries -> Book -> rows.

A pair is an event and an endpoint that its tenant subscribed. It ends as *delivered* (the endpoint answered
2xx), *parked*, or, at the endpoint that is gone, *unmatched*: no request was ever sent to it, and the healthy
endpoint got the event only after the first 410, so the event was matched when the subscription was disabled.
Every other pair is open.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Final, Literal, NamedTuple, TypeAlias

from demo.cast import ENDPOINTS, Endpoint, endpoints_of

End: TypeAlias = Literal["delivered", "parked", "unmatched"]

HEALTHY: Final = "healthy"
GONE: Final = "gone"
LATENCIES: Final = 200  #: recent deliveries of an endpoint from which its latency is computed
REMEMBERED: Final = 50_000  #: ended pairs that are remembered; a demo may play for days


class Pair(NamedTuple):
    """The names of a delivery."""

    event_id: str
    endpoint: str


class Request(NamedTuple):
    """One request, as an endpoint recorded it."""

    pair: Pair
    began: float  #: Unix seconds when the request was read
    ended: float  #: Unix seconds when the answer left
    status: int | None  #: None if the client left before the answer
    good: bool  #: whether its signature verified


@dataclass(slots=True)
class Delivery:
    """The record of one pair."""

    tenant: str
    at: float  #: Unix seconds when the event was published
    began: float | None = None  #: Unix seconds of the first request
    requests: int = 0
    end: End | None = None

    def requested(self, at: float) -> None:
        """Count a request that began then."""
        self.requests += 1
        self.began = at if self.began is None else min(self.began, at)

    def ends(self, how: End) -> None:
        """Note how it ended, perhaps otherwise than before."""
        self.end = how


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One endpoint in the account."""

    endpoint: Endpoint
    requests: int
    delivered: int
    waiting: int
    parked: int
    unmatched: int
    half_s: float | None  #: median time from publishing to 2xx, of recent deliveries
    most_s: float | None  #: their 95th percentile


@dataclass(slots=True)
class _Tally:
    requests: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES))

    def requested(self) -> None:
        """Count a request."""
        self.requests += 1


@dataclass(slots=True)
class Book:
    """All observations, in any order, as the sources are read one after the other."""

    open: dict[Pair, Delivery] = field(default_factory=dict)
    gone_at: float | None = None  #: Unix seconds of the first 410
    disabled: bool = False  #: whether the subscription of the endpoint that is gone is disabled
    events: Counter[str] = field(default_factory=Counter)  #: confirmed events by tenant
    bad_signatures: int = 0
    strangers: int = 0  #: requests that belong to no pair
    repeated: int = 0  #: further 2xx for a delivered pair
    _unconfirmed: dict[str, str] = field(default_factory=dict)  #: id -> tenant
    _ended: OrderedDict[Pair, Delivery] = field(default_factory=OrderedDict)
    _tallies: Mapping[str, _Tally] = field(default_factory=lambda: {e.name: _Tally() for e in ENDPOINTS})

    # observations

    def made(self, event_id: str, tenant: str, at: float) -> None:
        """Note an event that is about to be published, as a receiver may be faster than the confirm."""
        self._unconfirmed[event_id] = tenant
        for endpoint in endpoints_of(tenant):
            self.open[Pair(event_id, endpoint.name)] = Delivery(tenant, at)

    def confirmed(self, event_id: str) -> None:
        """Note that the broker has confirmed an event: from now on its deliveries are owed."""
        self.events[self._unconfirmed.pop(event_id)] += 1

    def requested(self, request: Request) -> None:
        """Note a request that an endpoint answered, or that was cut."""
        pair = request.pair
        known = self.open.get(pair) or self._ended.get(pair)
        if known is None:
            self.strangers += 1
            return
        tally = self._tallies[pair.endpoint]
        tally.requested()
        known.requested(request.began)
        self.bad_signatures += not request.good
        if request.status == 410 and (self.gone_at is None or request.ended < self.gone_at):
            self.gone_at = request.ended
        if request.status is not None and 200 <= request.status < 300:
            self.repeated += known.end == "delivered"
            if known.end != "delivered":
                tally.latencies.append(request.ended - known.at)
                self._end(pair, "delivered")

    def parked(self, pair: Pair) -> None:
        """Note a parked entry; a delivery that is also delivered counts as delivered."""
        if pair in self.open:
            self._end(pair, "parked")

    def switched_off(self) -> None:
        """Note that the subscription of the endpoint that is gone is disabled."""
        self.disabled = True

    def settle_unmatched(self) -> None:
        """End the pairs of the disabled subscription without a request, as none will follow."""
        if self.gone_at is None or not self.disabled:
            return
        for pair in [p for p in self.open if p.endpoint == GONE and self._is_unmatched(p)]:
            self._end(pair, "unmatched")

    def _is_unmatched(self, pair: Pair) -> bool:
        sibling = Pair(pair.event_id, HEALTHY)
        sent = self.open.get(sibling) or self._ended.get(sibling)
        if self.open[pair].requests or sent is None or sent.began is None or self.gone_at is None:
            return False
        return sent.began > self.gone_at

    def _end(self, pair: Pair, how: End) -> None:
        delivery = self.open.pop(pair, None)
        tally = self._tallies[pair.endpoint]
        if delivery is None:  # it had ended as parked before, and was then delivered after all
            delivery = self._ended[pair]
            tally.ends[str(delivery.end)] -= 1
        delivery.ends(how)
        tally.ends[how] += 1
        self._ended[pair] = delivery
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    # results

    def is_confirmed(self, event_id: str) -> bool:
        """Return whether the broker has confirmed the event."""
        return event_id not in self._unconfirmed

    def unaccounted(self) -> Sequence[Pair]:
        """Return the pairs of confirmed events that have not ended."""
        return [pair for pair in self.open if self.is_confirmed(pair.event_id)]

    def pairs(self) -> int:
        """Return the number of pairs that are owed in all."""
        return sum(len(endpoints_of(tenant)) * count for tenant, count in self.events.items())

    def rows(self) -> Iterator[Row]:
        """Yield one row per endpoint."""
        waiting = Counter(pair.endpoint for pair in self.unaccounted())
        for endpoint in ENDPOINTS:
            tally = self._tallies[endpoint.name]
            half_s, most_s = _typical(tally.latencies)
            yield Row(
                endpoint=endpoint,
                requests=tally.requests,
                delivered=tally.ends["delivered"],
                waiting=waiting[endpoint.name],
                parked=tally.ends["parked"],
                unmatched=tally.ends["unmatched"],
                half_s=half_s,
                most_s=most_s,
            )


def _typical(latencies: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the median and the 95th percentile; None without enough data."""
    if len(latencies) < 2:
        return None, None
    cuts = quantiles(latencies, n=20, method="inclusive")
    return cuts[9], cuts[18]
