"""Parked entries of twenty tenants: looked at, and replayed as a job that is killed, cancelled and resumed.

One tenant's entries are replayed at 50 a second. Its worker is killed with -9 at a quarter, the job is
cancelled at the half and resumed; meanwhile a command replays a second tenant's entries, and another one
lists. Afterwards each entry of the two tenants was received and is parked no more, each other one is parked
once and was never sent, and the job counted its entries exactly.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aio_pika

from bench.broker import Broker
from bench.prove import Bench
from bench.sink import Sink
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkNote, delivery_entry_headers
from consumer.core.model import Event, ParkReason
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication
from tests.support.processes.daemon import Daemon, subscription
from topology.names import Names

TENANTS = 20
ENTRIES = 10_000
RATE = 50  #: entries a second of the job; of a run in small fewer, so that it lasts as long
END_S = 240.0
AT_ONCE = 500  #: unconfirmed entries while they are parked


@dataclass(slots=True)
class Account:
    """Where the entries of each tenant should be, and where they were found."""

    ids: Mapping[str, Sequence[str]]  #: event ids by tenant
    sent: frozenset[str]  #: tenants whose entries were replayed
    parked: Counter[str] = field(default_factory=Counter)  #: event id -> how often it is parked
    received: Counter[str] = field(default_factory=Counter)  #: event id -> requests

    def unaccounted(self) -> Sequence[str]:
        """Return the ids of entries that are not where they should be."""
        return [
            event
            for tenant, events in self.ids.items()
            for event in events
            if (self.parked[event], bool(self.received[event]))
            != ((0, True) if tenant in self.sent else (1, False))
        ]


def tenant_of(number: int) -> str:
    """Return the name of a tenant."""
    return f"t{number:02}"


async def park(url: str, each: int) -> Mapping[str, Sequence[str]]:
    """Park *each* deliveries of every tenant, in turns, as a worker does; return their event ids."""
    names, ids = Names("leveret"), {tenant_of(number): list[str]() for number in range(TENANTS)}
    free = asyncio.Semaphore(AT_ONCE)
    async with await aio_pika.connect(url) as connection:
        confirms = Confirms(await open_channel(connection, confirms=True))

        async def one(publication: Publication, event: str) -> None:
            async with free:
                await confirms.publish(publication, event)

        publishing = []
        for number in range(each * TENANTS):
            tenant = tenant_of(number % TENANTS)
            event = Event(
                id=f"evt_{number:05}",
                tenant=tenant,
                type="order.created",
                timestamp="2026-01-01T00:00:00Z",
                arrived_at=time.time(),
                body=b'{"number":%d}' % number,
            )
            note = ParkNote(reason=ParkReason.EXHAUSTED, detail="503", at=time.time(), ttl_s=604_800.0)
            owed = DeliveryMessage(event=event, targets=(subscription_id(tenant, tenant),))
            headers = delivery_entry_headers(owed, note)
            key = names.parked_key(note.reason.value)
            entry = Publication(exchange=names.dlx, routing_key=key, body=event.body, headers=headers)
            ids[tenant].append(event.id)
            publishing.append(one(entry, event.id))
        await asyncio.gather(*publishing)
    return ids


async def _until(daemon: Daemon, job: str, *, replayed: int = 0, state: str = "") -> Mapping[str, Any]:
    """Wait until the job has replayed so many, or is in a state."""
    deadline = time.monotonic() + END_S
    while True:
        row: Mapping[str, Any] = json.loads(await daemon.cli("jobs", "show", job, "--json"))
        if (state and row["state"] == state) or (replayed and row["replayed"] >= replayed):
            return row
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job did not get that far: {row}")
        await asyncio.sleep(0.2)


async def _replayed(bench: Bench, daemon: Daemon, each: int) -> int:
    """Replay the first tenant's entries as a job with all that may happen; return what the job counted."""
    rate = str(bench.count(RATE))
    argv = ("parked", "replay", "--all", "--tenant", tenant_of(0), "--rate", rate, "--json")
    job = str(json.loads(await daemon.cli(*argv))["id"])
    await _until(daemon, job, replayed=each // 4)
    await daemon.kill()
    bench.say("killed")
    await daemon.start()
    await _until(daemon, job, replayed=each // 2)
    await daemon.cli("jobs", "cancel", job)
    bench.say("cancelled")
    second = ("parked", "replay", "--all", "--tenant", tenant_of(1), "--wait")
    meanwhile = [
        asyncio.ensure_future(daemon.cli(*second)),
        asyncio.ensure_future(daemon.cli("parked", "list")),
    ]
    await daemon.cli("jobs", "resume", job)
    bench.say("resumed")
    await asyncio.gather(*meanwhile)
    done = await _until(daemon, job, state="done")
    bench.note("parked_job", dict(done))
    return int(done["replayed"])


async def _looks(daemon: Daemon, account: Account) -> int:
    """List, filter, show and export; return how many entries the looks missed or repeated."""
    total = sum(map(len, account.ids.values()))
    wrong = abs(total - len(await daemon.listing("parked", "list")))
    of_one = await daemon.listing("parked", "list", "--tenant", tenant_of(2))
    wrong += abs(len(account.ids[tenant_of(2)]) - len(of_one))
    shown = json.loads(await daemon.cli("parked", "show", str(of_one[0]["id"])))
    wrong += int(shown["event_id"] != of_one[0]["event_id"])
    return wrong + abs(total - len((await daemon.cli("parked", "export")).splitlines()))


async def unaccounted(bench: Bench) -> int:
    """Park, look and replay; return how many entries are not where they should be, or are miscounted."""
    each = bench.count(ENTRIES // TENANTS, least=20)
    targets = {tenant_of(number): f"/ok/{tenant_of(number)}" for number in range(TENANTS)}
    async with Broker(bench) as broker, Sink(bench.folder, targets) as sink:
        async with Daemon(bench.folder, broker.url, name="jobs") as daemon:
            await daemon.subscribe(
                [
                    subscription(tenant, sink.url(tenant), tenant=tenant, events=["order.*"])
                    for tenant in targets
                ]
            )
            await daemon.start()
            account = Account(await park(broker.url, each), frozenset({tenant_of(0), tenant_of(1)}))
            await daemon.cli("parked", "reindex")  # no worker has noted these entries
            missed = await _looks(daemon, account)
            counted = await _replayed(bench, daemon, each)
            await sink.until_answered(2 * each, END_S)
            exported = (await daemon.cli("parked", "export")).splitlines()
            account.parked.update(str(json.loads(line)["event_id"]) for line in exported)
        account.received.update(seen.id for seen in sink.read())
    strayed = account.unaccounted()
    bench.note("parked_looks_missed", missed)
    bench.note("parked_requests", sum(account.received.values()))
    bench.note("parked_strayed", strayed[:5])
    return len(strayed) + missed + abs(counted - each)
