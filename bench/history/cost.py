"""Deliveries a second with the whole history against none, in turn, on both databases.

Two daemons with one home read the same lanes and send to the same nginx, which answers with a body of 600
bytes; only ``[history] keep`` differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.core.throughput import BLOCKS, CONCURRENCY, DELIVERIES, FANOUT, SETTINGS, Shape
from bench.history.databases import PostgresNode, SqliteFile
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.daemon import Daemon, subscription

GOALS = (
    Goal(name="history_cost_sqlite", text="≥ 0.90", unit="ratio", n=DELIVERIES),
    Goal(name="history_cost_postgres", text="≥ 0.90", unit="ratio", n=DELIVERIES),
)


def subscriptions(shape: Shape, nginx: Nginx) -> list[dict[str, object]]:
    """Return the subscriptions of a shape, whose endpoints answer with a body."""
    return [
        subscription(f"e{index:02d}", nginx.url(f"answer/e{index:02d}"), concurrency=CONCURRENCY)
        for index in range(shape.fanout)
    ]


def settings_of(database: SqliteFile | PostgresNode) -> dict[str, str]:
    """Return the settings of the daemons on *database*: each store needs a topology of its own."""
    return SETTINGS | dict(database.settings) | {"LEVERET_TOPOLOGY__PREFIX": database.name}


async def compare(track: Track, database: SqliteFile | PostgresNode, shape: Shape) -> tuple[float, int]:
    """Race ``all`` and ``off``; return the median of the pair ratios, and the deliveries of a leg.

    Raises:
        RuntimeError: rows are missing, so the race was not one of the whole history.
    """
    bench, url = track.bench, track.broker.url
    deliveries = bench.count(DELIVERIES, 40 * shape.fanout)
    events = shape.events(deliveries)
    requests, blocks = len(events) * shape.fanout, bench.count(BLOCKS)
    base = settings_of(database)
    name = f"{database.name}_{shape.label}"
    before = await database.rows()
    async with Daemon(bench.folder, url, base | {"LEVERET_HISTORY__KEEP": "off"}, f"{name}-off") as off:
        legs = Track(bench, track.broker, track.nginx, off, database.name)
        ratio = await race(
            bench,
            f"history_{name}",
            lambda: track.run_daemon(events, requests),
            lambda: legs.run_daemon(events, requests),
            blocks,
        )
    rows = await database.rows() - before
    bench.note(f"history_{name}_rows", rows)
    arrivals = len(events) if shape.fanout > 1 else 0  # one subscription: the arrival may be in the same row
    if rows < 2 * blocks * (requests + arrivals):
        raise RuntimeError(f"{rows} rows of {2 * blocks} legs are too few")
    return ratio, requests


async def worst(
    bench: Bench, broker: Broker, nginx: Nginx, database: SqliteFile | PostgresNode
) -> tuple[float, int]:
    """Race with fan-out 1 and 20; return the worse ratio and the deliveries of a leg."""
    found = []
    for shape in (Shape("f1"), Shape("f20", fanout=FANOUT)):
        settings = settings_of(database)
        async with Daemon(bench.folder, broker.url, settings, f"{database.name}_{shape.label}") as daemon:
            track = Track(bench, broker, nginx, daemon, database.name)
            await daemon.subscribe(subscriptions(shape, nginx))
            await track.lay_out()
            await track.run_daemon(shape.events(100 * shape.fanout), 100 * shape.fanout)  # makes the history
            found.append(await compare(track, database, shape))
    return min(ratio for ratio, _ in found), min(requests for _, requests in found)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race on both databases."""
    measured = []
    async with Broker(bench) as broker, Nginx(bench.folder) as nginx:
        for kind in (SqliteFile, PostgresNode):
            async with kind(bench.folder / f"{kind.__name__}-home") as database:
                ratio, requests = await worst(bench, broker, nginx, database)
            measured.append(Measured(name=f"history_cost_{database.name}", value=round(ratio, 3), n=requests))
    return measured


PROOF = Proof("history_cost", GOALS, prove)
