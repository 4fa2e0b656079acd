"""Create 1,000 subscriptions over HTTP with eight clients, on both databases, until the last is in force.

A worker runs beside ``leveret serve`` all the time. A subscription is in force when an event of its type,
published again and again, reaches its endpoint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

import httpx2

from bench.broker import Broker
from bench.history.databases import PostgresNode, SqliteFile
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.daemon import Daemon
from tests.support.servers.receiver import Receiver
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

SUBSCRIPTIONS = 1_000
CLIENTS = 8
TENANTS = 20
AGAIN_S = 0.02  #: pause between two events for the last subscription
PATIENCE_S = 20.0

GOALS = (
    Goal(name="api_apply_1000_s", text="≤ 20", unit="s", n=SUBSCRIPTIONS),
    Goal(name="api_visible_s", text="≤ 1", unit="s", n=2),
)


def tenant_of(number: int) -> str:
    """Return the tenant of a subscription."""
    return f"t{number % TENANTS:02d}"


def fields_of(number: int, receiver: Receiver) -> dict[str, object]:
    """Return the fields of a subscription: an endpoint and an event type of its own."""
    return {
        "name": f"s{number:04d}",
        "url": receiver.url(f"/ok/s{number:04d}"),
        "events": [f"made.s{number:04d}"],
    }


async def create(client: httpx2.AsyncClient, numbers: Iterator[int], receiver: Receiver) -> int:
    """Create subscriptions one after the other until *numbers* ends; return their number.

    Raises:
        RuntimeError: the API refused one.
    """
    made = 0
    for number in numbers:
        path = f"/v1/tenants/{tenant_of(number)}/subscriptions"
        answer = await client.post(path, json=fields_of(number, receiver))
        if answer.status_code != 201:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        made += 1
    return made


async def create_all(api: ServedApi, tokens: Sequence[str], count: int, receiver: Receiver) -> float:
    """Create *count* subscriptions with a client for each token; return the seconds that it took."""
    clients = [api.client(token) for token in tokens]
    numbers = iter(range(count))
    began = time.monotonic()
    made = await asyncio.gather(*(create(client, numbers, receiver) for client in clients))
    took_s = time.monotonic() - began
    for client in clients:
        await client.aclose()
    if sum(made) != count:
        raise RuntimeError(f"{sum(made)} of {count} subscriptions were created")
    return took_s


async def until_in_force(publisher: EventPublisher, receiver: Receiver, number: int) -> float:
    """Publish for a subscription until its endpoint gets a request; return the seconds that it took."""
    began = time.monotonic()
    target = f"/ok/s{number:04d}"
    while not any(request.target == target for request in receiver.requests):
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"{target} got nothing within {PATIENCE_S:g} s")
        await publisher.publish(tenant_of(number), f"made.s{number:04d}")
        await asyncio.sleep(AGAIN_S)
    return time.monotonic() - began


async def measure(
    bench: Bench, broker: Broker, settings: Mapping[str, str], name: str
) -> tuple[float, float]:
    """Return the seconds of the creations, and those until the last one was in force."""
    count = bench.count(SUBSCRIPTIONS, CLIENTS)
    prefix = {"LEVERET_TOPOLOGY__PREFIX": name}  # each store needs a topology of its own
    async with (
        Receiver() as receiver,
        Daemon(bench.folder, broker.url, {**settings, **prefix}, name) as daemon,
    ):
        await daemon.start()
        async with serving(daemon) as api, EventPublisher(broker.url, name) as publisher:
            tokens = [await api.token("--scope", "admin") for _ in range(CLIENTS)]
            took_s = await create_all(api, tokens, count, receiver)
            visible_s = await until_in_force(publisher, receiver, count - 1)
    bench.note(f"api_apply_{name}", {"seconds": round(took_s, 2), "visible_s": round(visible_s, 3)})
    return took_s, visible_s


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure on both databases; each figure is the worse one."""
    found = []
    async with Broker(bench) as broker:
        for kind in (SqliteFile, PostgresNode):
            async with kind(bench.folder / f"{kind.__name__}-home") as database:
                found.append(await measure(bench, broker, database.settings, database.name))
    applied, visible = (max(values) for values in zip(*found, strict=True))
    count = bench.count(SUBSCRIPTIONS, CLIENTS)
    return [
        Measured(name="api_apply_1000_s", value=round(applied, 2), n=count),
        Measured(name="api_visible_s", value=round(visible, 3), n=len(found)),
    ]


PROOF = Proof("operate_apply", GOALS, prove)
