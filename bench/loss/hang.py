"""Endpoints that hang, or answer just below the time-out, for a minute: how they come back.

Four endpoints of four tenants at once, each with 20 events a second for a minute: one pair hangs, one pair
answers 0.2 s before its time-out; of each pair one has 2 slots and one 16. Nothing is known of any of them
before. From one moment on all answer in 10 ms.

All times are the receiver's own. ``hang_drained_s`` is from that moment to the last delivery of the slowest
of the four. The endpoint's own rate is its slots over the 10 ms of its answer: the most that it can take, by
Little's law. ``hang_peak_ratio`` holds the most requests within any one second after that moment against it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.broker import Broker
from bench.outage.steady import peak_per_s, publish_steadily, until_taken
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import EventSpec, make_events
from tests.support.processes.daemon import Daemon, retry, subscription

ILL_S = 60.0
PER_S = 20.0  #: events for each endpoint
TIMEOUT_S = 2.0
SLOW_S = 1.8  #: just below the time-out
NEVER_S = 3_600.0
KNOWN_S = 15.0  #: from the daemon's start to the first event: it knows the endpoints by then
RELOAD_S = 2.0  #: it takes a change over within this
WELL_S = 0.01
COOLDOWN_S = 10.0  #: also after probes that failed
DRAIN_S = COOLDOWN_S + 60.0
GIVE_UP_S = 180.0  #: after :data:`DRAIN_S`

EVENTS = round(ILL_S * PER_S)
GOALS = (
    Goal(name="hang_drained_s", text=f"≤ {DRAIN_S:g}", unit="s", n=EVENTS),
    Goal(name="hang_parked", text="0", unit="entries", n=4 * EVENTS),
    Goal(name="hang_peak_ratio", text="≤ 1.5", unit="ratio", n=4 * EVENTS),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One endpoint, of a tenant of its own."""

    name: str
    answer_s: float  #: while it is ill
    slots: int

    def target(self, up_at: float) -> str:
        """Return the behaviours that ``tests.support.servers.receiver`` plays."""
        return f"/lag/{self.name}?s={self.answer_s:g},{WELL_S:g}&at={up_at:.3f}"


CASES = tuple(
    Case(f"{kind}{slots}", answer_s, slots)
    for kind, answer_s in (("hangs", NEVER_S), ("slow", SLOW_S))
    for slots in (2, 16)
)


@dataclass(frozen=True, slots=True)
class Drained:
    """How one endpoint came back."""

    seconds: float  #: 1e6: something never came
    peak_ratio: float
    missing: int


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish while they are ill, and wait until all is delivered."""
    each = bench.count(EVENTS, 40)
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url) as daemon:
        await daemon.start()
        began = time.time() + KNOWN_S
        up_at = began + each / PER_S
        async with Sink(bench.folder, {case.name: case.target(up_at) for case in CASES}) as sink:
            await daemon.subscribe([_subscription(case, sink) for case in CASES])
            ready = time.time() + RELOAD_S <= began
            await asyncio.sleep(max(0.0, began - time.time()))
            bench.say(f"publishing {each} events for each of {len(CASES)} endpoints")
            await publish_steadily(broker.url, _events(each), PER_S * len(CASES))
            wanted = len(CASES) * each
            await until_taken(sink, wanted, up_at + DRAIN_S + GIVE_UP_S - time.time())
            parked = await daemon.listing("parked", "list")
            figures = measure(bench, sink.read(), up_at, each, len(parked))
            return [replace(figure, valid=figure.valid and ready) for figure in figures]


def _subscription(case: Case, sink: Sink) -> dict[str, object]:
    breaker = {"cooldown_s": COOLDOWN_S, "cooldown_max_s": COOLDOWN_S}
    more = {"tenant": case.name, "concurrency": case.slots, "timeout_s": TIMEOUT_S, "breaker": breaker}
    return subscription(case.name, sink.url(case.name), **more, retry=retry(max_attempts=20))


def _events(each: int) -> list[EventSpec]:
    """Return the events in the order of publishing, in turn for each endpoint."""
    return [
        EventSpec(id=f"{case.name}_{event.id}", tenant=case.name, type=event.type, body=event.body)
        for event in make_events("hang", each)
        for case in CASES
    ]


def measure(bench: Bench, seen: Sequence[Seen], up_at: float, each: int, parked: int) -> list[Measured]:
    """Judge the receiver's log of *each* events an endpoint."""
    found = {
        case.name: drained([one for one in seen if one.path == case.name], case, up_at, each)
        for case in CASES
    }
    for name, one in found.items():
        bench.note(f"hang_{name}", one)
    count = len(CASES) * each
    seconds = max(one.seconds for one in found.values())
    ratio = max(one.peak_ratio for one in found.values())
    whole = sum(one.missing for one in found.values()) == parked
    return [
        Measured(name="hang_drained_s", value=round(seconds, 2), n=each),
        Measured(name="hang_parked", value=parked, n=count, valid=whole),
        Measured(name="hang_peak_ratio", value=round(ratio, 3), n=count, valid=whole),
    ]


def drained(seen: Sequence[Seen], case: Case, up_at: float, each: int) -> Drained:
    """Return how one endpoint came back, by its own requests."""
    taken = [one for one in seen if one.status == 200]
    missing = each - len({one.id for one in taken})
    last_s = max((one.ended for one in taken), default=up_at) - up_at
    peak = peak_per_s([one.began for one in seen if one.began >= up_at])
    return Drained(1e6 if missing else round(last_s, 2), round(peak * WELL_S / case.slots, 3), missing)


PROOF = Proof("hang", GOALS, prove)
