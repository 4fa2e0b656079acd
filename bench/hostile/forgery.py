"""Forged headers, deaths and tenants must change nothing outside of their own delivery.

Data flow: a few kinds of :mod:`tests.support.hostile.forged` -> copies that expire in the lane while
no worker runs, and one that does not -> the daemon starts -> the fate of the victim's events beside them.
Where a few kinds together changed anything, the proof tries each kind alone, on a broker of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import aiormq
from pamqp.commands import Basic

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import connect, purge, ready_counts
from tests.support.hostile.forged import (
    FORGERIES,
    HOSTILE,
    KEY,
    NAMES,
    OPERATORS,
    SOURCES,
    VICTIM,
    Forgery,
    alive_id,
    publish,
    publish_messages,
)
from tests.support.processes.daemon import Daemon, subscription

COPIES = 34  #: of a death, that expire: more than RabbitMQ's dead-letter process holds unconfirmed
TOGETHER = 12  #: kinds that are tried at once
COME_S = 60.0  #: a later effect does not count
VICTIMS_KEY = "victims.own"
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "1",  # everybody's dead letters take the same route
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25,1,5,30]",
    "LEVERET_SOURCES": json.dumps(SOURCES),
}
GOALS = (Goal(name="forged_accepted", text="0", unit="kinds", n=30),)


class Ground:
    """A broker and a daemon on which kinds are tried; both are made anew where a kind spoilt them."""

    def __init__(self, bench: Bench, number: int) -> None:
        folder = bench.folder / f"ground-{number}"
        folder.mkdir()
        self._bench = Bench(
            folder=folder, scale=bench.scale, broker_version=bench.broker_version, notes=bench.notes
        )
        self._broker = Broker(self._bench)
        self._sink = Sink(folder, {VICTIM: "/ok/victim", HOSTILE: "/ok/hostile", OPERATORS: "/ok/desk"})
        self.daemon: Daemon

    async def __aenter__(self) -> Ground:
        await self._broker.__aenter__()
        await self._sink.__aenter__()
        for source in SOURCES:
            await _declare(self._broker.url, source["exchange"])
        self.daemon = Daemon(self._bench.folder, self._broker.url, SETTINGS)
        everyone = (VICTIM, HOSTILE, OPERATORS)
        await self.daemon.subscribe([subscription(who, self._sink.url(who), tenant=who) for who in everyone])
        await self.daemon.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.daemon.__aexit__()
        await self._sink.__aexit__()
        await self._broker.__aexit__()

    async def tried(self, forgeries: Sequence[Forgery]) -> str:
        """Publish *forgeries*; describe their effects outside of their own deliveries; empty without one."""
        name = forgeries[0].name
        try:
            await self._stop()
            await purge(self._broker.url, [NAMES.parked])
            before = len(self._sink.read())
            await self._publish(forgeries, COPIES, expiration_ms=1)
            await self._victim([f"dying-{name}"], expiration_ms=1)
            await self._lane_empty()
            await self.daemon.start()
            await self._publish(forgeries, 1)
            alive = [alive_id(forgery.name) for forgery in forgeries]
            await self._victim(alive)
            await self._arrived(before, alive)
            last = [f"last-{name}"]
            await self._victim(last)
            await self._arrived(before, last)
            entries = await self._entries(f"dying-{name}")
        except (OSError, RuntimeError, TimeoutError, aiormq.AMQPError) as error:
            return f"the broker or the daemon failed: {error!r}"[:300]
        asked = Counter((seen.path, seen.id) for seen in self._sink.read()[before:])
        return _changed_requests(asked, [*alive, *last]) or _changed_entries(
            entries, forgeries, f"dying-{name}"
        )

    async def replayed(self, body: bytes, message_id: str | None) -> str:
        """Park the same bytes of both tenants and replay one entry; describe the fate of the other."""
        await purge(self._broker.url, [NAMES.parked])
        for tenant in (HOSTILE, VICTIM):
            properties = Basic.Properties(headers={"tenant": tenant}, message_id=message_id)
            await publish_messages(self._broker.url, [(NAMES.events, KEY, body, properties)])
        both = await self._parked(2)
        ids = {str(row["tenant"]): str(row["id"]) for row in both}
        if len(set(ids.values())) != 2:
            return f"both entries have the id {ids}"
        await self.daemon.cli("parked", "replay", ids[HOSTILE])
        await self._parked(2)  # it is as broken as before
        again = await self.daemon.listing("parked", "list", "--tenant", VICTIM)
        victims = [row["parked_at"] for row in both if row["tenant"] == VICTIM]
        return (
            "" if [row["parked_at"] for row in again] == victims else "the victim's entry was replayed, too"
        )

    async def _stop(self) -> None:
        self.daemon.terminate()
        if await self.daemon.wait_exit(25) is None:
            raise TimeoutError("the daemon did not stop")

    async def _publish(
        self, forgeries: Iterable[Forgery], copies: int, expiration_ms: int | None = None
    ) -> None:
        await publish(self._broker.url, forgeries, copies, expiration_ms)

    async def _victim(self, ids: Iterable[str], expiration_ms: int | None = None) -> None:
        own = Forgery(name="none", tenant=VICTIM)
        messages = [(NAMES.events, VICTIMS_KEY, b"{}", own.message(one, expiration_ms)) for one in ids]
        await publish_messages(self._broker.url, messages)

    async def _lane_empty(self) -> None:
        """Return once nothing is ready in the lane: the expired messages are dead or jammed."""
        deadline = time.monotonic() + COME_S
        while (await ready_counts(self._broker.url, [NAMES.lane(0)]))[NAMES.lane(0)]:
            if time.monotonic() > deadline:
                raise TimeoutError("the lane's events did not expire")
            await asyncio.sleep(0.1)

    async def _arrived(self, before: int, ids: Sequence[str]) -> None:
        """Return once the victim got all of *ids*, or they are late."""
        deadline = time.monotonic() + COME_S
        while time.monotonic() < deadline:
            if set(ids) <= {seen.id for seen in self._sink.read()[before:] if seen.path == VICTIM}:
                return
            await asyncio.sleep(0.1)

    async def _entries(self, dying: str) -> Sequence[dict[str, object]]:
        """Return the parked entries, once the victim's own dead letter is parked, or is late."""
        deadline = time.monotonic() + COME_S
        while True:
            entries = await self.daemon.listing("parked", "list")
            if any(row["event_id"] == dying for row in entries) or time.monotonic() > deadline:
                return entries

    async def _parked(self, count: int) -> Sequence[dict[str, object]]:
        deadline = time.monotonic() + COME_S
        while len(entries := await self.daemon.listing("parked", "list")) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(entries)} of {count} entries are parked")
        return entries


def _changed_requests(asked: Counter[tuple[str, str]], wanted: Sequence[str]) -> str:
    """Name the requests that are too many or too few; *wanted* are the victim's."""
    victim = Counter({one: count for (path, one), count in asked.items() if path == VICTIM})
    if victim != Counter(wanted):
        return f"the victim got {dict(victim - Counter(wanted))}, and not {dict(Counter(wanted) - victim)}"
    if twice := [one for (path, one), count in asked.items() if path == HOSTILE and count > 1]:
        return f"delivered more than once: {twice[:3]}"
    hostile = {one for path, one in asked if path == OPERATORS and not one.startswith("ops_")}
    hostile |= {one for path, one in asked if path == OPERATORS and one == "ops_" + "0" * 32}
    return f"the operators got {sorted(hostile)[:3]}" if hostile else ""


def _changed_entries(entries: Sequence[dict[str, object]], forgeries: Sequence[Forgery], dying: str) -> str:
    """Describe the faults of the parked entries."""
    victims = [row for row in entries if row["tenant"] == VICTIM]
    if [row["event_id"] for row in victims] != [dying]:
        return f"the victim's entries are {[row['event_id'] for row in victims][:5]}"
    if (victims[0]["reason"], victims[0]["routing_key"]) != ("expired", VICTIMS_KEY):
        return f"the victim's dead letter says {victims[0]['reason']}, {victims[0]['routing_key']}"
    believable: set[tuple[object, object]] = {(forgery.exchange, forgery.key) for forgery in forgeries}
    believable |= {(NAMES.dlx, "raw"), (None, None), (NAMES.events, VICTIMS_KEY)}
    told = {(row["exchange"], row["routing_key"]) for row in entries} - believable
    return f"entries came from {sorted(map(str, told))}" if told else ""


async def _declare(url: str, exchange: str) -> None:
    connection = await connect(url)
    channel = await connection.channel()
    await channel.exchange_declare(exchange, exchange_type="topic", durable=True)
    await connection.close()


class Grounds:
    """The ground that is in use."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._made = 0
        self._ground: Ground | None = None

    async def ground(self) -> Ground:
        """Return the one in use, or a new one."""
        if self._ground is None:
            self._made += 1
            ground = Ground(self._bench, self._made)
            await ground.__aenter__()
            self._ground = ground
        return self._ground

    async def spoilt(self) -> None:
        """Take the next one anew."""
        ground, self._ground = self._ground, None
        if ground is not None:
            await ground.__aexit__()


async def accepted(bench: Bench, forgeries: Sequence[Forgery], grounds: Grounds) -> dict[str, str]:
    """Return the kinds that changed something, each with its change."""
    found: dict[str, str] = {}
    for first in range(0, len(forgeries), TOGETHER):
        some = forgeries[first : first + TOGETHER]
        changed = await (await grounds.ground()).tried(some)
        bench.say(f"{some[0].name} … {some[-1].name}: {changed or 'nothing changed'}")
        if not changed:
            continue
        await grounds.spoilt()
        for one in some:
            if changed := await (await grounds.ground()).tried([one]):
                found[one.name] = changed
                bench.say(f"{one.name}: {changed}")
                await grounds.spoilt()
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Try every kind, and the replay of one of two equal bodies."""
    forgeries = FORGERIES[:: max(1, round(1 / bench.scale))]
    grounds = Grounds(bench)
    try:
        found = await accepted(bench, forgeries, grounds)
        replays = {"replay-nameless": None, "replay-one-id": "one-id"}
        for name, message_id in replays.items():
            if changed := await (await grounds.ground()).replayed(b'{"broken":', message_id):
                found[name] = changed
    finally:
        await grounds.spoilt()
    bench.note("forged_accepted_kinds", found)
    return [Measured(name="forged_accepted", value=len(found), n=len(forgeries) + len(replays))]


PROOF = Proof("forgery", GOALS, prove)
