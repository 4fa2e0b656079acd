"""A daemon runs with the wrong store, then with the right one: count the events that never arrive.

Each case has an instance of its own on one broker. Deliveries wait for an endpoint that fails each event
once, and fresh events are in the lanes, when a daemon starts whose store lacks them. It runs for longer than
all waits. Then the right store is back, and every event has to arrive.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from urllib.error import HTTPError

import asyncpg

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription
from tests.support.processes.postgres import Postgres

WAITING = 300
FRESH = 100
WAIT_S = 15.0  #: between two attempts: longer than it takes to fail all and to stop the daemon
STRANGER_S = 25.0  #: that the wrong store gets: all that waits is due in it
END_S = 90.0
UP_S = 30.0
REMEDY = "leveret store adopt"

GOALS = (Goal(name="stranger_store_lost", text="0", unit="deliveries", n=6),)

RETRY = {"max_attempts": 8, "base_s": WAIT_S, "multiplier": 1, "max_s": WAIT_S, "jitter": 0}
SMALL = {
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "2",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25,0.5,1,2,4,8,16,30]",
}


@dataclass(slots=True, kw_only=True)
class Case:
    """One instance, its right daemon, and the events that have to arrive."""

    bench: Bench
    broker: Broker
    sink: Sink
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    daemon: Daemon = field(init=False)
    red: list[str] = field(default_factory=list)  #: the answer of the wrong daemon's ``/readyz``

    def __post_init__(self) -> None:
        self.daemon = self.another(self.name, self.settings)

    def another(self, name: str, settings: Mapping[str, str]) -> Daemon:
        """Return a daemon of this instance with a home of its own."""
        prefix = {"LEVERET_TOPOLOGY__PREFIX": self.name}
        return Daemon(self.bench.folder, self.broker.url, {**SMALL, **prefix, **settings}, name)

    def entry(self, tenant: str = "t00") -> Mapping[str, object]:
        """Return the subscription to the endpoint of this case."""
        name = f"{self.name}-{tenant}"  # its secret is made from it
        target = subscription(name, self.sink.url(self.name), retry=RETRY, breaker=NO_BREAKER)
        return {**target, "tenant": tenant}

    def events(self, part: str, count: int) -> Sequence[EventSpec]:
        """Return events of this case."""
        return make_events(f"{self.name}_{part}", self.bench.count(count, 10), size=300)

    def taken(self) -> set[str]:
        """Return the events that the endpoint took."""
        return {seen.id for seen in self.sink.read() if seen.path == self.name and seen.status == 200}

    async def publish(self, events: Sequence[EventSpec]) -> None:
        """Publish *events* to this instance."""
        await publish(self.broker.url, events, f"{self.name}.events")

    async def let_wait(self) -> Sequence[EventSpec]:
        """Start the right daemon and let every event of the first part fail once."""
        await self.daemon.start()
        events = self.events("waiting", WAITING)
        before = await self.sink.answered()
        await self.publish(events)
        if not await self.sink.until_answered(before + len(events), UP_S):
            raise TimeoutError(f"{self.name}: not all were tried")
        return events

    async def halt(self, daemon: Daemon) -> None:
        """Stop a daemon, which gives its messages back."""
        daemon.terminate()
        await daemon.wait_exit(30)

    async def be_strange(self, daemon: Daemon) -> None:
        """Run a daemon with the wrong store, as long as something would come up; note its health."""
        daemon.spawn()
        await wait_until(lambda: self._health(daemon) != "", UP_S)
        until = time.monotonic() + STRANGER_S
        while time.monotonic() < until:
            await asyncio.sleep(1.0)
            self.red.append(await asyncio.to_thread(self._health, daemon))
        await self.halt(daemon)

    def _health(self, daemon: Daemon) -> str:
        try:
            return fetch(f"http://{daemon.listen}/readyz", timeout_s=5).decode()
        except HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            return ""


async def empty_home(case: Case) -> None:
    """The working folder was another one: a store is made anew."""
    await case.halt(case.daemon)
    await case.publish(case.events("fresh", FRESH))
    await case.be_strange(case.another(f"{case.name}-empty", {}))
    await case.daemon.start()


async def other_home(case: Case) -> None:
    """Another installation's store, with subscriptions of its own."""
    await case.halt(case.daemon)
    await case.publish(case.events("fresh", FRESH))
    stranger = case.another(f"{case.name}-other", {})
    await stranger.subscribe([case.entry("t09")])
    await case.be_strange(stranger)
    await case.daemon.start()


async def two_workers(case: Case) -> None:
    """A second worker with a store of its own beside the first."""
    stranger = case.another(f"{case.name}-second", {})
    await stranger.subscribe([case.entry("t09")])
    beside = asyncio.create_task(case.be_strange(stranger))
    await wait_until(lambda: bool(case.red), UP_S)
    await case.publish(case.events("fresh", FRESH))
    await beside


async def backup(case: Case) -> None:
    """Yesterday's copy of the SQLite file, from before the subscription; today's is put back later."""
    path = case.daemon.home / "leveret.db"
    today = path.with_name("today.db")
    await case.halt(case.daemon)
    await case.publish(case.events("fresh", FRESH))
    shutil.copyfile(path, today)
    shutil.copyfile(path.with_name("yesterday.db"), path)
    await case.be_strange(case.daemon)
    for log in ("-wal", "-shm"):
        path.with_name(path.name + log).unlink(missing_ok=True)
    shutil.copyfile(today, path)
    await case.daemon.start()


async def postgres_backup(case: Case) -> None:
    """The same on PostgreSQL: the daemon is started on a copy of the database from yesterday."""
    await case.halt(case.daemon)
    await case.publish(case.events("fresh", FRESH))
    home = {"LEVERET_HOME": str(case.daemon.home)}
    url = case.settings["LEVERET_DATABASE_URL"] + "_yesterday"
    await case.be_strange(case.another(f"{case.name}-yesterday", {**home, "LEVERET_DATABASE_URL": url}))
    await case.daemon.start()


async def away_at_start(case: Case) -> None:
    """The store cannot be read when the daemon starts, and comes back while it runs."""
    path = case.daemon.home / "leveret.db"
    await case.halt(case.daemon)
    await case.publish(case.events("fresh", FRESH))
    path.rename(path.with_name("aside.db"))
    case.daemon.spawn()
    await asyncio.sleep(STRANGER_S)
    path.with_name("aside.db").rename(path)
    case.red.append(REMEDY)  # here health names the file that has gone


CASES: Sequence[tuple[str, Callable[[Case], Awaitable[None]]]] = (
    ("empty", empty_home),
    ("other", other_home),
    ("two", two_workers),
    ("backup", backup),
    ("postgres", postgres_backup),
    ("away", away_at_start),
)


async def copy_database(url: str) -> None:
    """Copy an idle PostgreSQL database to one of the same name and ``_yesterday``."""
    server, _, name = url.rpartition("/")
    connection = await asyncpg.connect(f"{server}/postgres")
    try:
        await connection.execute(f"CREATE DATABASE {name}_yesterday TEMPLATE {name}")
    finally:
        await connection.close()


async def prepare(case: Case) -> None:
    """Make a store that had another subscription yesterday, keep a copy, and subscribe today's."""
    await case.daemon.subscribe([case.entry("t08")])
    if "LEVERET_DATABASE_URL" in case.settings:
        await copy_database(case.settings["LEVERET_DATABASE_URL"])
    else:
        path = case.daemon.home / "leveret.db"
        with (
            closing(sqlite3.connect(path)) as source,
            closing(sqlite3.connect(path.with_name("yesterday.db"))) as copy,
        ):
            source.backup(copy)
    await case.daemon.subscribe([case.entry("t08"), case.entry()])


async def run_case(case: Case, step: Callable[[Case], Awaitable[None]]) -> tuple[int, bool]:
    """Return how many events never arrived, and whether ``/readyz`` named the wrong store."""
    await prepare(case)
    waiting = await case.let_wait()
    try:
        await step(case)
        owed = {event.id for event in (*waiting, *case.events("fresh", FRESH))}
        await wait_until(lambda: owed <= case.taken(), END_S)
        lost = owed - case.taken()
    finally:
        await case.daemon.__aexit__()
    case.bench.note(f"stranger_store_{case.name}_lost", len(lost))
    return len(lost), any(REMEDY in said for said in case.red)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run every case, and sum up the missing events."""
    node = Postgres()
    node.create()
    results: list[tuple[int, bool]] = []
    targets = {name: f"/retry-after/{name}?s=0&status=503&times=1" for name, _ in CASES}
    try:
        await node.start()
        async with Broker(bench) as broker, Sink(bench.folder, targets) as sink:
            for name, step in CASES:
                settings = {"LEVERET_DATABASE_URL": await node.database()} if name == "postgres" else {}
                case = Case(bench=bench, broker=broker, sink=sink, name=name, settings=settings)
                results.append(await run_case(case, step))
    finally:
        await node.remove()
    bench.note("stranger_store_remedy_named", sum(named for _, named in results))
    lost, named = sum(lost for lost, _ in results), all(named for _, named in results)
    return [Measured(name="stranger_store_lost", value=lost, n=len(results), valid=named)]


PROOF = Proof("stranger_store", GOALS, prove)
