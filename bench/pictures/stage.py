"""Set the stage of the pictures: a worker, ``leveret serve``, customers, an hour of history, and faults.

Data flow: subscriptions and history -> the store; events -> the worker -> endpoints; changes -> the API.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from bench.broker import Broker
from bench.operate.ground import UNLIMITED
from bench.pictures.past import hour_before
from bench.pictures.shops import PAYLOADS, SHOPS, answer, subscription
from bench.prove import Bench
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.store.history.build import open_history
from consumer.settings import load_settings
from tests.support.processes.daemon import Daemon
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.raw_server import RawServer
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

ROUND_S: Final = 0.5  #: one event of each type for each tenant so often
ROUNDS: Final = 40
PARKED_LEAST: Final = 20
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The running product, and the ids that the pictures show."""

    api: ServedApi
    admin: str  #: token of an operator
    customer: str  #: token of the tenant ``acme``
    ids: Mapping[str, str]  #: see :func:`bench.operate.places.operator_pages`


@asynccontextmanager
async def staged(bench: Bench, rounds: int = ROUNDS) -> AsyncIterator[Stage]:
    """Run everything with *rounds* of events, until the pictures are taken."""
    async with Broker(bench) as broker, RawServer(answer) as endpoints, NameServer() as names:
        for shop in SHOPS:
            names.on(f"{shop.host}.", Answer(("127.0.0.1",), ttl_s=300))
            names.on(shop.host, Answer(("127.0.0.1",), ttl_s=300))
        settings = UNLIMITED | {"LEVERET_SENDING__DNS_SERVERS": json.dumps([names.address])}
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            await daemon.subscribe([subscription(shop, endpoints.port) for shop in SHOPS])
            await _remember(daemon)
            await daemon.start()
            async with serving(daemon) as api, EventPublisher(broker.url) as publisher:
                yield await _played(bench, api, publisher, rounds)


async def _remember(daemon: Daemon) -> None:
    """Write the hour before now into the history."""
    history = open_history(load_settings(environ=daemon.env))
    await history.write(1, hour_before(time.time()))
    await history.close()


async def _played(bench: Bench, api: ServedApi, publisher: EventPublisher, rounds: int) -> Stage:
    """Play the night up to the moment of the pictures."""
    admin = await _token(api, "night shift", "--scope", "admin")
    customer = await _token(api, "portal of acme", "--scope", "operate", "--tenant", "acme")
    await _token(api, "shop backend", "--scope", "operate", "--expires-in", "90d")
    await _token(api, "grafana", "--scope", "read")
    async with api.client(admin) as client:
        await _steer(client)
        for number in range(rounds):
            await _publish(publisher)
            await asyncio.sleep(ROUND_S)
            if number % 20 == 0:
                bench.say(f"round {number} of {rounds}")
        parked = await _parked(client, min(PARKED_LEAST, rounds))
        job = await client.post("/v1/parked/replay", json={"tenant": "acme", "rate_per_s": 0.2})
        _demand(job, 202)
    ids = {
        "tenant": "acme",
        "subscription": subscription_id("acme", "orders"),
        "parked": str(parked["id"]),
        "event": str(parked["event_id"]),
        "job": str(job.json()["id"]),
    }
    return Stage(api=api, admin=admin, customer=customer, ids=ids)


async def _token(api: ServedApi, name: str, *options: str) -> str:
    return (await api.daemon.cli("tokens", "create", name, *options)).strip()


async def _steer(client: httpx2.AsyncClient) -> None:
    """Do what operators did before the night."""
    acme = "/v1/tenants/acme/subscriptions"
    cooldown = {"breaker": {"failures": 24, "cooldown_s": 300}}
    patch = await client.patch(f"{acme}/{subscription_id('acme', 'orders')}", json=cooldown)
    _demand(patch, 200)
    _demand(await client.post(f"{acme}/{subscription_id('acme', 'warehouse')}/pause"), 200)
    legacy = f"/v1/tenants/hooli/subscriptions/{subscription_id('hooli', 'legacy')}"
    _demand(await client.post(f"{legacy}/disable", json={"reason": "the customer has moved"}), 200)


async def _publish(publisher: EventPublisher) -> None:
    """Publish an event of each type for each tenant."""
    for tenant in {shop.tenant for shop in SHOPS}:
        for kind, payload in PAYLOADS.items():
            await publisher.publish(tenant, kind, json.dumps(payload).encode())


async def _parked(client: httpx2.AsyncClient, least: int) -> Mapping[str, Any]:
    """Wait until *least* entries are parked, and return one.

    Raises:
        TimeoutError: fewer are.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            rows = (await client.get("/v1/parked", params={"tenant": "acme"})).json()["items"]
            if len(rows) >= least:
                found: Mapping[str, Any] = rows[0]
                return found
            await asyncio.sleep(0.5)


def _demand(got: httpx2.Response, status: int) -> None:
    if got.status_code != status:
        raise RuntimeError(f"{got.request.url} answered {got.status_code}: {got.text}")
