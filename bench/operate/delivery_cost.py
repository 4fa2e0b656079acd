"""Deliveries a second with 50 API requests a second against none: ``serve`` beside the worker, and inside it.

Legs with and without requests take turns (ABBA); each drains the same lanes into the same nginx. The API
listens in all of them. A figure is valid only if the requests were answered at nearly that rate from the
first delivery of a leg to its last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    loads: list[Mapping[str, object]] = []

    async def under_load() -> float:
        load, mark = ApiLoad(port, token, PATHS, REQUESTS_PER_S), track.nginx.mark()
        async with load.running():
            rate = await track.run_daemon(events, len(events))
        loads.append(_seen(load, await track.nginx.span(mark, len(events))))
        return rate

    async def alone() -> float:
        return await track.run_daemon(events, len(events))

    ratio = await race(bench, name, under_load, alone, bench.count(BLOCKS))
    bench.note(f"{name}_requests", loads)
    valid = all(load["is_right"] for load in loads)
    return Measured(name=name, value=round(ratio, 3), n=len(events), valid=valid)


def _seen(load: ApiLoad, drain: tuple[float, float]) -> Mapping[str, object]:
    """Return the answers of the API while the deliveries were made, from the first to the last."""
    waits = sorted(load.waits_s) or [0.0]
    return {
        "is_right": load.is_right(*drain),
        "per_s": round(load.rate_within(*drain), 1),
        "drain_s": round(drain[1] - drain[0], 2),
        "p50_ms": round(waits[len(waits) // 2] * 1000),
        "p95_ms": round(waits[int(len(waits) * 0.95)] * 1000),
        "unsent": load.unsent,
        "statuses": dict(load.statuses),
    }


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
