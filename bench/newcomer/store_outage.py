"""The database goes in mid-run: every event published before, meanwhile and after is still delivered.

Two legs: the SQLite file is removed; PostgreSQL is stopped. Each leg counts only if the daemon reported that
its store is away, a command was refused meanwhile, and the store was well again once the database was back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from bench.broker import Broker
from bench.core.kills import successes
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, make_events, publish, wait_empty
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription
from tests.support.processes.postgres import Postgres

EVENTS = 5_000
END_S = 240.0
SEEN_S = 30.0  #: longest time until the daemon has noticed that its store is away, or back
TARGETS = {"healthy": "/ok/healthy", "flaky": "/flaky/flaky?share=0.3"}

GOALS = (Goal(name="store_outage_undelivered", text="0", unit="pairs", n=EVENTS),)


class Database(Protocol):
    """A database that can be taken away and given back."""

    name: str
    settings: dict[str, str]  #: the daemon's, to use it

    async def take(self) -> None:
        """Take it away."""

    async def give(self) -> None:
        """Give it back."""


class SqliteFile:
    """The SQLite file of a daemon's home."""

    name = "sqlite"

    def __init__(self, home: Path) -> None:
        self.settings: dict[str, str] = {}
        self._path = home / "leveret.db"
        self._aside = home / "aside.db"

    async def take(self) -> None:
        """Remove it from the daemon's view."""
        self._path.rename(self._aside)
        for log in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + log).unlink()

    async def give(self) -> None:
        """Put it back."""
        self._aside.rename(self._path)


class PostgresNode(AbstractAsyncContextManager["PostgresNode"]):
    """A PostgreSQL of the proof's own."""

    name = "postgres"

    def __init__(self) -> None:
        self._node = Postgres()
        self.settings: dict[str, str] = {}

    async def __aenter__(self) -> PostgresNode:
        self._node.create()
        await self._node.start()
        self.settings = {"LEVERET_DATABASE_URL": await self._node.database()}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._node.remove()

    async def take(self) -> None:
        """Stop the server."""
        await self._node.stop()

    async def give(self) -> None:
        """Start it again."""
        await self._node.start()


@dataclass(slots=True)
class Leg:
    """One daemon with one kind of database, and the fate of its events."""

    bench: Bench
    broker: Broker
    sink: Sink
    daemon: Daemon
    database: Database

    async def run(self) -> tuple[list[EventSpec], bool]:
        """Publish in three parts, the second while the database is away.

        Returns:
            The events, and whether daemon and command line reported as they have to.
        """
        name, size = self.database.name, self.bench.count(EVENTS, 30)
        before, away, after = (
            make_events(f"{name}_{part}", size // 3 + (part == "b") * (size % 3), size=300) for part in "abc"
        )
        entries = [
            subscription(
                target, self.sink.url(target), retry=retry(max_attempts=15, max_s=2), breaker=NO_BREAKER
            )
            for target in TARGETS
        ]
        await self.daemon.subscribe(entries)
        await self.daemon.start()
        already = await self.sink.answered()
        exchange = f"{name}.events"
        await publish(self.broker.url, before, exchange)
        await self.sink.until_answered(already + len(before), END_S)  # of twice as many and more
        await self.database.take()
        self.bench.say(f"{name}: the database is gone")
        await publish(self.broker.url, away, exchange)
        noticed = await wait_until(lambda: self._store_up() == 0, SEEN_S)
        refused = not await self._command_works()
        went_on = await self._delivered([*before, *away])
        await self.database.give()
        self.bench.say(f"{name}: the database is back")
        healed = await wait_until(lambda: self._store_up() == 1, SEEN_S)
        await publish(self.broker.url, after, exchange)
        empty = await wait_empty(self.broker.management, timeout_s=END_S)
        said = {"noticed": noticed, "refused": refused, "went_on": went_on, "healed": healed, "empty": empty}
        self.bench.note(f"store_outage_{name}", said)
        return [*before, *away, *after], all(said.values()) and await self._command_works()

    async def _delivered(self, events: Sequence[EventSpec]) -> bool:
        """Wait until every endpoint has taken all of *events*."""
        wanted = {(event.id, name) for event in events for name in TARGETS}
        deadline = asyncio.get_running_loop().time() + END_S
        while wanted - successes(await asyncio.to_thread(self.sink.read)).keys():
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.5)
        return True

    def _store_up(self) -> float:
        text = fetch(f"http://{self.daemon.listen}/metrics").decode()
        found = re.search(r"^leveret_store_up (\S+)$", text, re.MULTILINE)
        return -1.0 if found is None else float(found[1])

    async def _command_works(self) -> bool:
        try:
            await self.daemon.cli("subscriptions", "list")
        except RuntimeError as error:
            self.bench.note(f"store_outage_{self.database.name}_said", str(error).partition(": ")[2])
            return False
        return True


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both legs, and count the pairs of event and endpoint that were never taken."""
    lost: list[tuple[str, str]] = []
    counts, valid = [], True
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS) as sink,
        PostgresNode() as postgres,
    ):
        file = SqliteFile(bench.folder / "sqlite-home")
        for database in (file, postgres):
            settings = {**database.settings, "LEVERET_TOPOLOGY__PREFIX": database.name}
            async with Daemon(bench.folder, broker.url, settings, database.name) as daemon:
                events, said = await Leg(bench, broker, sink, daemon, database).run()
            taken = await asyncio.to_thread(lambda: successes(sink.read()))
            lost += [
                (event.id, name) for event in events for name in TARGETS if (event.id, name) not in taken
            ]
            counts.append(len(events))
            valid = valid and said
    bench.note("store_outage_lost_examples", lost[:10])
    return [Measured(name="store_outage_undelivered", value=len(lost), n=min(counts), valid=valid)]


PROOF = Proof("store_outage", GOALS, prove)
