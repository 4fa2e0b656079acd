"""A parked queue with many entries of many tenants, and commands as an operator starts them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aio_pika

from bench.broker import Broker
from bench.prove import Bench
from tests.support.builders.parked_queue import failed, park_all
from tests.support.processes import leveret
from tests.support.processes.daemon import Daemon, subscription
from topology.declare import declare
from topology.names import Names
from topology.plan import TopologySpec, build_plan

ENTRIES = 10_000
TENANTS = 20
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "1",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "1",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "0",
    "LEVERET_TOPOLOGY__RUNGS_S": "[1]",
}
SPEC = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(1.0,))
PATIENCE_S = 300.0  #: longest run of one command


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One command, from its start to its end."""

    words: Sequence[str]
    code: int
    out: bytes
    err: str
    seconds: float

    def rows(self) -> Sequence[Mapping[str, object]]:
        """Return the printed JSON objects."""
        return [json.loads(line) for line in self.out.splitlines()]

    def ids(self) -> Sequence[str]:
        """Return the ids of the printed entries."""
        return [str(row["id"]) for row in self.rows()]

    @property
    def is_refused(self) -> bool:
        """Whether it ended because another command has the entries in hand.

        A busy machine may take longer than the command waits for the name of that one.
        """
        return self.code == 1 and not self.out and "leveret.parked is in use by " in self.err


class Ground:
    """The broker, the store and the entries of a proof."""

    def __init__(self, daemon: Daemon, url: str, tenant_of: Mapping[str, str]) -> None:
        self.daemon = daemon
        self.url = url
        self.tenant_of = tenant_of  #: by id of the entry
        self.names = Names()

    async def parked(self, *words: str) -> Answer:
        """Run ``leveret parked`` with *words*."""
        began = time.monotonic()
        env = self.daemon.env
        done = await asyncio.to_thread(leveret.run, "parked", *words, env=env, timeout_s=PATIENCE_S)
        seconds = time.monotonic() - began
        out, err = done.stdout.encode(), done.stderr
        return Answer(words=words, code=done.returncode, out=out, err=err, seconds=seconds)

    def of(self, tenant: str) -> Collection[str]:
        """Return the ids of a tenant's entries."""
        return [entry_id for entry_id, owner in self.tenant_of.items() if owner == tenant]


@asynccontextmanager
async def ground(bench: Bench, entries: int) -> AsyncIterator[Ground]:
    """Park *entries* deliveries out of order on a fresh broker, and index them."""
    began = time.time() - 100_000
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url, SETTINGS) as daemon:
        owners = [f"tenant-{number:02}" for number in range(TENANTS)]
        await daemon.subscribe(
            [subscription(f"to-{owner}", f"http://127.0.0.1:9/{owner}", tenant=owner) for owner in owners]
        )
        targets = {
            str(row["tenant"]): str(row["id"]) for row in await daemon.listing("subscriptions", "list")
        }
        numbers = list(range(entries))
        random.Random(4).shuffle(numbers)
        tenants = [owners[number % TENANTS] for number in numbers]
        deliveries = [
            (failed(number, owner, targets[owner], began + number), began + number)
            for number, owner in zip(numbers, tenants, strict=True)
        ]
        async with await aio_pika.connect(broker.url) as connection:
            await declare(build_plan(SPEC), connection)
            ids = await park_all(connection, Names(), deliveries)
        here = Ground(daemon, broker.url, dict(zip(ids, tenants, strict=True)))
        indexed = await here.parked("reindex", "--json")
        if indexed.code or indexed.rows()[0]["entries"] != entries:
            raise RuntimeError(f"reindex: {indexed.out.decode()}{indexed.err}")
        yield here


def amiss(expected: Collection[str], found: Sequence[str]) -> int:
    """Return how many entries are missing, doubled or strange in *found*."""
    counts = Counter(found)
    wanted = set(expected)
    return sum(1 for entry_id in wanted if counts[entry_id] != 1) + len(counts.keys() - wanted)
