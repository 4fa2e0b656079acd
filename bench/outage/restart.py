"""The worker is restarted while 5,000 deliveries wait for one endpoint: its rate holds all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.broker import Broker
from bench.outage.steady import peak_per_s, until_taken
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import Daemon, subscription

WAITING = 5_000
RATE_PER_S = 100.0
AWAY_S = 10.0  #: so that a thousand are overdue when it is back
END_S = 180.0

GOALS = (Goal(name="restart_peak_ratio", text="≤ 1.5", unit="ratio", n=4_000),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Defer, restart, and check every second afterwards."""
    count = bench.count(WAITING, 200)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"paced": "/ok/paced"}) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        await daemon.subscribe([subscription("paced", sink.url("paced"), rate_per_s=RATE_PER_S)])
        await daemon.start()
        await publish(broker.url, make_events("rst", count))
        daemon.terminate()
        assert await daemon.wait_exit(40) == 0
        stopped_at = time.time()
        await asyncio.sleep(AWAY_S * bench.scale)
        await daemon.start()
        await until_taken(sink, count, END_S)
        seen = sink.read()
    after = [one.began for one in seen if one.began >= stopped_at]
    bench.note("restart_left_to_send", len(after))
    bench.note("restart_lost", count - len({one.id for one in seen}))
    bench.note("restart_drained_per_s", round(len(after) / max(0.001, max(after) - min(after)), 1))
    ratio = round(peak_per_s(after) / RATE_PER_S, 3)
    valid = len({one.id for one in seen}) == count
    return [Measured(name="restart_peak_ratio", value=ratio, n=len(after), valid=valid)]


PROOF = Proof("restart", GOALS, prove)
