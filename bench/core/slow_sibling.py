"""One slow endpoint does not hold its tenant's events: four healthy siblings keep their rate."""

from __future__ import annotations

from collections.abc import Sequence

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events
from tests.support.processes.daemon import Daemon, subscription

EVENTS = 10_000  #: a leg of some seconds: in its first two the latency of the slow one is unknown
HEALTHY = 4
SLOW_S = 2.0
SLOW_CONCURRENCY = 16
BLOCKS = 3
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "256"}

GOALS = (Goal(name="slow_sibling_ratio", text="≥ 0.8", unit="ratio", n=5_000),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race five endpoints, one of them slow, against the four alone; only nginx's requests count."""
    events = make_events("sib", bench.count(EVENTS, 50))
    strays: list[int] = []  #: requests to the slow endpoint in legs that are to be without it
    requests = len(events) * HEALTHY
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Sink(bench.folder, {"slow": f"/slow/slow?s={SLOW_S:g}"}) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        track = Track(bench, broker, nginx, daemon)
        four = [subscription(f"h{n}", nginx.url(f"h{n}"), concurrency=64) for n in range(HEALTHY)]
        slow = subscription("slow", sink.url("slow"), concurrency=SLOW_CONCURRENCY)

        async def with_slow() -> float:
            await daemon.subscribe([*four, slow])
            return await track.run_daemon(events, requests)

        async def alone() -> float:
            await daemon.subscribe(four)
            before = (await sink.counts()).arrived
            rate = await track.run_daemon(events, requests)
            strays.append((await sink.counts()).arrived - before)
            return rate

        await daemon.subscribe(four)
        await track.lay_out()
        ratio = await race(bench, "slow_sibling", with_slow, alone, bench.count(BLOCKS))
        served = (await sink.counts()).arrived
    bench.note("slow_sibling_slow_requests", served)
    bench.note("slow_sibling_requests_while_alone", strays)
    valid = served > 0 and not any(strays)
    return [Measured(name="slow_sibling_ratio", value=round(ratio, 3), n=len(events), valid=valid)]


PROOF = Proof("slow_sibling", GOALS, prove)
