"""Measure the deliveries per second of a daemon whose log is not read.

A round of each kind in turn: events are published while no daemon runs, then one starts that logs to
``/dev/null``, or into a pipe that is never read. The rate counts from the first answer to the last.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.children import unread_pipe
from tests.support.processes.daemon import Daemon, subscription

EVENTS = 5_000
ROUNDS = 3
PATIENCE_S = 240.0

GOALS = (Goal(name="stalled_log_delivered_ratio", text="≥ 0.9", unit="ratio", n=EVENTS),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Compare the medians of both kinds; n is how many events of a round were delivered, at least."""
    count = bench.count(EVENTS, 100)
    rates: dict[str, list[float]] = {"read": [], "unread": []}
    delivered = [count]
    async with Broker(bench) as broker, Sink(bench.folder, {"well": "/ok/well"}) as sink:
        async with Daemon(bench.folder, broker.url) as daemon:
            await daemon.subscribe([subscription("well", sink.url("well"))])
            await daemon.start()
        with unread_pipe(bench.folder / "log.pipe") as pipe:
            for number in range(ROUNDS):
                for kind, log in (("read", Path(os.devnull)), ("unread", pipe)):
                    daemon.log = log
                    before = len(sink.read())
                    await publish(broker.url, make_events(f"{kind}{number}", count))
                    async with daemon:
                        await daemon.start()
                        await sink.until_answered(before + count, PATIENCE_S)
                    ends = [seen.ended for seen in sink.read()[before:]]
                    delivered.append(len(ends))
                    rates[kind].append(len(ends) / (max(ends) - min(ends)))
                    bench.say(f"{kind}: {rates[kind][-1]:.0f}/s")
    bench.note("stalled_log_rates", {kind: [round(rate) for rate in of] for kind, of in rates.items()})
    ratio = median(rates["unread"]) / median(rates["read"])
    return [Measured(name="stalled_log_delivered_ratio", value=round(ratio, 3), n=min(delivered))]


PROOF = Proof("stalled_log", GOALS, prove)
