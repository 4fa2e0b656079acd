"""SIGKILL of the broker, down for 10 s: the time from its readiness to the first delivery.

The broker is ready from the first AMQP connection that it takes; one is tried every 20 ms. The events of the
measurement are published from then on, so the time contains the confirm of the first of them. The figure is
the longest time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

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


async def _first(sink: Sink, ids: Collection[str]) -> float:
    """Return the Unix time of the first request for one of these events, once all of them came.

    A count of requests would not do: after a kill the broker gives some acked events out again.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            began = {one.id: one.began for one in reversed(sink.read()) if one.id in ids}
            if len(began) == len(ids):
                return min(began.values())
            await asyncio.sleep(LOOK_S)


async def _once(bench: Bench, broker: Broker, sink: Sink, number: int) -> float:
    """Kill the broker and start it again; return the seconds from its readiness to the first delivery."""
    before, after = make_events(f"before_{number}", EVENTS), make_events(f"after_{number}", EVENTS)
    await publish(broker.url, before)
    await _first(sink, {event.id for event in before})
    await broker.kill()
    await asyncio.sleep(DOWN_S)
    starting = asyncio.create_task(broker.start())
    ready_at = await asyncio.wait_for(_ready(broker.url), PATIENCE_S)
    await publish(broker.url, after)
    published_s = time.time() - ready_at
    first_s = await _first(sink, {event.id for event in after}) - ready_at
    await starting
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
