"""A product at work for the proofs: a worker, ``leveret serve``, and one tenant whose objects have known ids.

The tenant ``acme`` has a subscription whose endpoint refuses everything. So there are an event, a delivery,
attempts, a parked entry, and a replay job of it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.broker import Broker
from bench.prove import Bench
from consumer.core.message.jobs import JobState, ReplayJob, job_id
from consumer.core.message.parked_filter import Filter
from consumer.edges.store import opened_store
from consumer.settings import load_settings
from tests.support.processes.daemon import Daemon
from tests.support.servers.receiver import Receiver
from tests.support.system.api import ServedApi, serving
from tests.support.system.publisher import EventPublisher

TENANT = "acme"
RIVAL = "rival"
MARK = "d0nt-read-me"  #: in the name, the URL and the payload of everything that ``acme`` has
EVENT = f"evt-{MARK}"
PATIENCE_S = 30.0
UNLIMITED = {
    "LEVERET_API__REQUESTS_PER_S": "100000",
    "LEVERET_API__BURST": "100000",
    "LEVERET_API__FAILED_LOGINS_PER_MIN": "10000",
}
"""Settings of an API that a proof may ask as fast as it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The running product, and the ids of the tenant's objects."""

    api: ServedApi
    admin: str  #: a token that may do everything
    ids: dict[str, str]  #: by their kind, such as ``parked``


@asynccontextmanager
async def laid_out(bench: Bench) -> AsyncIterator[Ground]:
    """Run everything, with a parked delivery of ``acme`` and a subscription of ``rival``; then end it."""
    async with (
        Broker(bench) as broker,
        Receiver() as receiver,
        Daemon(bench.folder, broker.url, UNLIMITED) as daemon,
    ):
        await daemon.start()
        async with serving(daemon) as api, EventPublisher(broker.url) as publisher:
            admin = await api.token("--scope", "admin")
            ids = await _fill(api, admin, receiver, publisher)
            yield Ground(api=api, admin=admin, ids=ids)


async def _fill(api: ServedApi, admin: str, receiver: Receiver, publisher: EventPublisher) -> dict[str, str]:
    """Make an object of each kind; return their ids."""
    name = f"shop-{MARK}"
    fields = {
        "name": name,
        "url": receiver.url(f"/status/503/{MARK}"),
        "events": ["order.*"],
        "retry": {"max_attempts": 1},
    }
    async with api.client(admin) as client:
        made = await client.post(f"/v1/tenants/{TENANT}/subscriptions", json=fields)
        fields |= {"name": "own", "url": receiver.url("/ok/own")}
        other = await client.post(f"/v1/tenants/{RIVAL}/subscriptions", json=fields)
    if (made.status_code, other.status_code) != (201, 201):
        raise RuntimeError(f"{made.text} {other.text}")
    parked = await _parked(api, publisher)
    job = await _job(api)
    return {
        "tenant": TENANT,
        "subscription": made.json()["id"],
        "parked": str(parked["id"]),
        "endpoint": made.json()["endpoint"],
        "name": name,
        "event": EVENT,
        "delivery": parked.get("delivery_id") or await _delivery(api),
        "job": job,
        "token": admin.split("_")[1],
    }


async def _parked(api: ServedApi, publisher: EventPublisher) -> dict[str, str]:
    """Publish for the broken endpoint until an entry is parked; return the entry."""
    body = json.dumps({"note": MARK}).encode()
    deadline = time.monotonic() + PATIENCE_S
    await asyncio.sleep(1.5)  # the worker reads the subscriptions within a second
    await publisher.publish(TENANT, "order.created", body, EVENT)
    while time.monotonic() < deadline:
        rows = [json.loads(line) for line in (await api.daemon.cli("parked", "list", "--json")).splitlines()]
        if rows:
            found: dict[str, str] = rows[0]
            return found
    raise TimeoutError(f"nothing was parked within {PATIENCE_S:g} s")


async def _job(api: ServedApi) -> str:
    """Make a paused replay job of the tenant and return its id."""
    job = ReplayJob(
        id=job_id(MARK.encode()),
        chosen=Filter(tenant=TENANT, type="order.*"),
        created=time.time(),
        state=JobState.PAUSED,
    )
    async with opened_store(load_settings(environ=api.daemon.env)) as store:
        await store.records.jobs.add(job)
    return job.id


async def _delivery(api: ServedApi) -> str:
    """Return the id of the delivery."""
    trace = json.loads((await api.daemon.cli("trace", EVENT, "--json")).splitlines()[0])
    return str(trace["deliveries"][0]["delivery_id"])
