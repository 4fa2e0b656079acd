"""Deliveries a second with metrics, JSON logs at info and the history against none of them, by turns.

The observed worker has the default settings and is scraped every five seconds of its turns, as by the shipped
Prometheus. The other one logs errors only, keeps no history, and is not scraped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.broker import Broker
from bench.nginx import Nginx
from bench.observe.pairs import DELIVERIES, Pair, worst
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import fetch
from tests.support.processes.daemon import Daemon

ON = {"LEVERET_LOG__LEVEL": "info", "LEVERET_LOG__FORMAT": "json", "LEVERET_HISTORY__KEEP": "all"}
OFF = {"LEVERET_LOG__LEVEL": "error", "LEVERET_HISTORY__KEEP": "off"}

GOALS = (Goal(name="observability_cost", text="≥ 0.9", unit="ratio", n=DELIVERIES),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race with fan-out 1 and 20."""
    scrapes: list[int] = []

    async def scrape(daemon: Daemon) -> None:
        scrapes.append(len(await asyncio.to_thread(fetch, f"http://{daemon.listen}/metrics")))

    async with Broker(bench) as broker, Nginx(bench.folder) as nginx:
        pair = Pair(label="observability", on=ON, off=OFF, beside_on=scrape)
        ratio, deliveries = await worst(bench, broker, nginx, pair)
    bench.note("observability_scrapes", len(scrapes))
    return [Measured(name="observability_cost", value=round(ratio, 3), n=deliveries, valid=len(scrapes) > 0)]


PROOF = Proof("observability_cost", GOALS, prove)
