"""Ten thousand deliveries wait for an endpoint that comes back with ``429`` and ``Retry-After: 60``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.broker import Broker
from bench.outage.steady import until_taken
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import Daemon, subscription

WAITING = 10_000
ASKED_S = 60.0
COOLDOWN_S = 5.0
DOWN_S = 45.0  #: long enough to publish and put off all of them
END_S = 240.0

GOALS = (Goal(name="retry_after_requests", text="0", unit="requests", n=WAITING),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count the requests between the first 429 and the end of the wait that it asked for."""
    count = bench.count(WAITING, 100)
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url) as daemon:
        throttles_at = time.time() + 10 + max(10.0, DOWN_S * bench.scale)
        at = f"{throttles_at:.3f},{throttles_at + ASKED_S / 2:.3f}"
        target = f"/plan/busy?say=503,429,200&at={at}&retry_after={ASKED_S:g}"
        async with Sink(bench.folder, {"busy": target}) as sink:
            breaker = {"failures": 3, "cooldown_s": COOLDOWN_S, "cooldown_max_s": COOLDOWN_S}
            await daemon.subscribe([subscription("busy", sink.url("busy"), breaker=breaker)])
            await daemon.start()
            await publish(broker.url, make_events("ra", count))
            await until_taken(sink, count, END_S)
            seen = sink.read()
    first = min((one for one in seen if one.status == 429), key=lambda one: one.began)
    until = first.ended + ASKED_S
    within = [one for one in seen if first.ended < one.began < until]
    taken = {one.id for one in seen if one.status == 200}
    early = {one.id for one in seen if one.status == 200 and one.began < first.began}
    bench.note("retry_after_waiting", count - len(early))
    bench.note("retry_after_drained_s", round(max(one.ended for one in seen) - until, 1))
    bench.note("retry_after_lost", count - len(taken))
    valid = len(taken) == count and not early
    return [Measured(name="retry_after_requests", value=len(within), n=count - len(early), valid=valid)]


PROOF = Proof("retry_after", GOALS, prove)
