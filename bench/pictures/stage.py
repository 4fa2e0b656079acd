"""Set the stage of the pictures: a worker, ``leveret serve``, customers, an hour of history, and faults.

Data flow: subscriptions and history -> the store; events -> the worker -> endpoints; changes -> the API.
"""

from __future__ import annotations

import asyncio
import json
import secrets
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
from consumer.core.history.batch import HistoryBatch
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.history.build import open_history
from consumer.settings import load_settings
from tests.support.processes.daemon import Daemon
from tests.support.servers.name_server import Answer, NameServer
from tests.support.servers.raw_server import RawServer
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

ROUND_S: Final = 1.5  #: one event for each endpoint so often
ROUNDS: Final = 40
PARKED_LEAST: Final = 20
RESENT_LEAST: Final = 3  #: entries that the replay job sends before it is paused
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
                busy = asyncio.create_task(_publish_on(publisher))
                try:
                    yield await _played(bench, api, rounds)
                finally:
                    busy.cancel()


async def _remember(daemon: Daemon) -> None:
    """Write the hour before now into the history."""
    history = open_history(load_settings(environ=daemon.env))
    await history.write(1, HistoryBatch(hour_before(time.time())))
    await history.close()


async def _played(bench: Bench, api: ServedApi, rounds: int) -> Stage:
    """Play the night up to the moment of the pictures."""
    admin = await _token(api, "night shift", "--scope", "admin")
    customer = await _token(api, "portal of acme", "--scope", "operate", "--tenant", "acme")
    await _token(api, "shop backend", "--scope", "operate", "--expires-in", "90d")
    await _token(api, "grafana", "--scope", "read")
    async with api.client(admin) as client:
        await _steer(client)
        await asyncio.sleep(rounds * ROUND_S)
        parked = await _parked(client, PARKED_LEAST)
        bench.say(f"{PARKED_LEAST} entries are parked")
        job = await _resent(client)
    ids = {
        "tenant": "acme",
        "subscription": subscription_id("acme", "orders"),
        "parked": str(parked["id"]),
        "event": str(parked["event_id"]),
        "job": job,
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


async def _publish_on(publisher: EventPublisher) -> None:
    """Publish events of every tenant until cancelled, and first one that cannot be read."""
    await publisher.publish("tyrell", "order.created", b'{"order_id": "ord_4')
    while True:
        for shop in SHOPS:
            start = shop.events[0].partition(".")[0]
            kind, payload = secrets.choice([each for each in PAYLOADS.items() if each[0].startswith(start)])
            await publisher.publish(shop.tenant, kind, json.dumps(payload).encode())
        await asyncio.sleep(ROUND_S)


async def _resent(client: httpx2.AsyncClient) -> str:
    """Resend some parked entries with a job, pause it, and return its id."""
    made = await client.post("/v1/parked/replay", json={"tenant": "acme", "rate_per_s": 1})
    _demand(made, 202)
    job = str(made.json()["id"])
    async with asyncio.timeout(PATIENCE_S):
        while (await client.get(f"/v1/jobs/{job}")).json()["replayed"] < RESENT_LEAST:  # noqa: ASYNC110 - a worker counts
            await asyncio.sleep(0.5)
    _demand(await client.post(f"/v1/jobs/{job}/pause"), 200)
    return job


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
