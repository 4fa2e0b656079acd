"""SIGKILL of the broker, down for 10 s: the time from its readiness to the first delivery.

The broker is ready from the first AMQP connection that it takes; one is tried every 20 ms. The events of the
measurement are published from then on, so the time contains the confirm of the first of them. The figure is
the longest time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import aiormq
from yarl import URL

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from consumer.edges.broker.connection.come_back import is_open
from tests.support.broker.load import connect, make_events, publish
from tests.support.processes.daemon import Daemon, subscription

KILLS = 5
DOWN_S = 10.0
LOOK_S = 0.02  #: between two tries to connect
PATIENCE_S = 90.0
EVENTS = 16  #: published together, as a lane may still be without its leader

GOALS = (Goal(name="broker_back_first_delivery_s", text="≤ 2", unit="s", n=KILLS),)


async def _ready(url: str) -> float:
    """Return the Unix time at which the broker takes the first connection."""
    while True:
        while not await is_open(URL(url)):  # noqa: ASYNC110 (a port sets no event)
            await asyncio.sleep(LOOK_S)
        try:
            connection = await connect(url)
        except (OSError, aiormq.AMQPError, TimeoutError):
            await asyncio.sleep(LOOK_S)
            continue
        at = time.time()
        await connection.close()
        return at


async def _once(bench: Bench, broker: Broker, sink: Sink, number: int) -> float:
    """Kill the broker and start it again; return the seconds from its readiness to the first delivery."""
    await publish(broker.url, make_events(f"before_{number}", EVENTS))
    await sink.until_answered((2 * number + 1) * EVENTS, PATIENCE_S)
    await broker.kill()
    await asyncio.sleep(DOWN_S)
    starting = asyncio.create_task(broker.start())
    ready_at = await asyncio.wait_for(_ready(broker.url), PATIENCE_S)
    await publish(broker.url, make_events(f"after_{number}", EVENTS))
    published_s = time.time() - ready_at
    await sink.until_answered((2 * number + 2) * EVENTS, PATIENCE_S)
    await starting
    first_s = min(one.began for one in sink.read() if one.began >= ready_at) - ready_at
    bench.note(f"broker_back_{number}", {"first_s": round(first_s, 3), "published_s": round(published_s, 3)})
    return first_s


async def prove(bench: Bench) -> Sequence[Measured]:
    """Kill :data:`KILLS` times; the longest time is the figure."""
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"shop": "/ok/shop"}) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        await daemon.subscribe([subscription("shop", sink.url("shop"))])
        await daemon.start()
        times = [await _once(bench, broker, sink, number) for number in range(bench.count(KILLS))]
    value = round(max(times), 3)
    return [Measured(name="broker_back_first_delivery_s", value=value, n=len(times))]


PROOF = Proof("broker_back", GOALS, prove)
