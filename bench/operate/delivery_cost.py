"""Deliveries a second with 50 API requests a second against none: ``serve`` beside the worker, and inside it.

Legs with and without requests take turns (ABBA); each drains the same lanes into the same nginx. The API
listens in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.core.throughput import BLOCKS, DELIVERIES, SETTINGS, Shape
from bench.nginx import Nginx
from bench.operate.load import ApiLoad
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import free_port
from tests.support.processes.daemon import Daemon
from tests.support.system.api import make_token, serving

REQUESTS_PER_S = 50.0
TENANT = "t00"

GOALS = (
    Goal(name="delivery_cost_serve", text="≥ 0.9", unit="ratio", n=DELIVERIES),
    Goal(name="delivery_cost_run", text="≥ 0.8", unit="ratio", n=DELIVERIES),
)
PATHS = (
    "/v1/tenants",
    f"/v1/tenants/{TENANT}",
    f"/v1/tenants/{TENANT}/subscriptions",
    f"/v1/tenants/{TENANT}/subscriptions/t00-e00",
)
"""The requests of the load, in turn."""


async def compare(track: Track, name: str, port: int, token: str) -> Measured:
    """Race legs with requests to the API at *port* against legs without."""
    bench, shape = track.bench, Shape("f1")
    events = shape.events(bench.count(DELIVERIES, 40))
    loads: list[ApiLoad] = []

    async def under_load() -> float:
        load = ApiLoad(port, token, PATHS, REQUESTS_PER_S)
        loads.append(load)
        async with load.running():
            return await track.run_daemon(events, len(events))

    async def alone() -> float:
        return await track.run_daemon(events, len(events))

    ratio = await race(bench, name, under_load, alone, bench.count(BLOCKS))
    answers = [{"per_s": round(load.achieved_per_s, 1), "late": load.late} for load in loads]
    bench.note(f"{name}_requests", answers)
    valid = all(load.is_right for load in loads)
    return Measured(name=name, value=round(ratio, 3), n=len(events), valid=valid)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race both ways to run the API."""
    measured = []
    async with Broker(bench) as broker, Nginx(bench.folder) as nginx:
        async with Daemon(bench.folder, broker.url, SETTINGS) as daemon:
            track = Track(bench, broker, nginx, daemon)
            await daemon.subscribe(Shape("f1").subscriptions(nginx))
            await track.lay_out()
            async with serving(daemon) as api:
                measured.append(await compare(track, "delivery_cost_serve", api.port, await api.token()))
            token = await make_token(daemon)
        port = free_port()
        inside = {**SETTINGS, "LEVERET_API__LISTEN": f"127.0.0.1:{port}"}
        async with Daemon(bench.folder, broker.url, inside) as daemon:
            track = Track(bench, broker, nginx, daemon)
            measured.append(await compare(track, "delivery_cost_run", port, token))
    return measured


PROOF = Proof("operate_delivery_cost", GOALS, prove)
