"""Looks at the parked queue, partial replays and purges, cut or not, and a restart of the broker after each.

A run parks entries as the product does, lets one command look at them, then replays some others, and the
broker is stopped or killed. Afterwards each entry must be in exactly one place: parked, or on its way again,
or in the archive. The fifteen runs before one restart have topologies of their own on the same broker.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import aio_pika
from aiormq.abc import AbstractChannel, DeliveredMessage

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkNote, delivery_entry_headers
from consumer.core.model import Event, ParkReason
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication
from tests.support.broker.load import connect
from tests.support.processes import leveret
from tests.support.processes.children import stop, wait_exit
from tests.support.processes.daemon import Daemon, subscription
from topology.declare import declare
from topology.names import Names
from topology.plan import Plan, TopologySpec, build_plan

ENTRIES = 400
CHOSEN = 40  #: entries that a partial replay or purge is to take
COMMANDS = ("reindex", "show", "export", "replay", "purge")
CUTS = ("", "SIGINT", "SIGKILL")
ENDS = ("stop", "kill")
MOVED = 8  #: a replay or purge is cut after so many entries
CUT_TRIES = 10  #: a look may be over before it is cut
PATIENCE_S = 60.0
SETTLED_S = 2.0  #: the node writes down which queues it has every 500 ms
OLD, NEW = "old", "new"  #: tenants; a purge takes those of the first

GOALS = (
    Goal(name="parked_look_lost", text="0", unit="entries", n=30),
    Goal(name="parked_look_doubled", text="0", unit="entries", n=30),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One command on a parked queue of its own."""

    number: int
    command: str
    cut: str  #: empty, or the name of a signal

    @property
    def names(self) -> Names:
        """Of its queues."""
        return Names(f"look{self.number:02}")

    def __str__(self) -> str:
        return f"{self.command}, {self.cut or 'whole'}"


@dataclass(frozen=True, slots=True)
class Parked:
    """The entries of a run: event id -> id of the entry."""

    ids: Mapping[str, str]
    meant: Sequence[str]  #: entries for the command
    others: Sequence[str]  #: entries for the replay after it


@dataclass(frozen=True, slots=True)
class Found:
    """Where the entries of a run were after the restart."""

    lost: int
    doubled: int


def plan_of(names: Names) -> Plan:
    """Return the plan of a parked queue and a replay alone: each quorum queue costs file handles."""
    whole = build_plan(
        TopologySpec(prefix=names.prefix, lanes=1, due_queues=1, spill_queues=0, rungs_s=(1.0,))
    )
    wanted = {names.parked, names.replay}
    return replace(
        whole,
        exchanges=tuple(
            each for each in whole.exchanges if each.type not in ("headers", "x-consistent-hash")
        ),
        queues=tuple(queue for queue in whole.queues if queue.name in wanted),
        bindings=tuple(each for each in whole.bindings if each.destination in wanted),
    )


async def park(url: str, run: Run, target: str, count: int) -> Parked:
    """Park *count* deliveries for a subscription as a worker does."""
    names, ids = run.names, {}
    async with await aio_pika.connect(url) as connection:
        await declare(plan_of(names), connection)
        confirms = Confirms(await open_channel(connection, confirms=True))
        publishing = []
        for number in range(count):
            event = Event(
                id=f"{names.prefix}_{number:04}",
                tenant=OLD if number % 10 == 3 else NEW,
                type="order.created",
                timestamp="2026-01-01T00:00:00Z",
                arrived_at=time.time(),
                body=b'{"number":%d}' % number,
            )
            note = ParkNote(reason=ParkReason.EXHAUSTED, detail="503", at=time.time(), ttl_s=604_800.0)
            headers = delivery_entry_headers(DeliveryMessage(event=event, targets=(target,)), note)
            ids[event.id] = str(headers["leveret-entry"])
            key = names.parked_key(note.reason.value)
            parked = Publication(exchange=names.dlx, routing_key=key, body=event.body, headers=headers)
            publishing.append(confirms.publish(parked, event.id))
        await asyncio.gather(*publishing)
    entries = list(ids.values())
    chosen = min(CHOSEN, count // 10)
    return Parked(ids, entries[3::10][:chosen], entries[7::10][:chosen])


def argv_of(run: Run, parked: Parked) -> Sequence[str]:
    """Return the arguments of the run's command."""
    match run.command:
        case "show":
            return ("show", [*parked.ids.values()][-1])
        case "replay":
            return ("replay", *parked.meant)
        case "purge":
            return ("purge", "--older-than", "0s", "--tenant", OLD, "--yes")
        case other:
            return (other,)


async def cut(run: Run, channel: AbstractChannel, daemon: Daemon, words: Sequence[str]) -> bool:
    """Start the command, and end it by the run's signal in the middle; return whether it was not over."""
    queue = run.names.replay if run.command == "replay" else run.names.parked
    archive = daemon.home / "archive"
    before = (await channel.queue_declare(run.names.parked, passive=True)).message_count or 0

    async def is_under_way() -> bool:
        if run.command == "purge":
            lines = sum(
                path.read_bytes().count(run.names.prefix.encode()) for path in archive.glob("purged-*")
            )
            return lines >= MOVED
        ready = (await channel.queue_declare(queue, passive=True)).message_count or 0
        return ready >= MOVED if run.command == "replay" else ready < before

    env = daemon.env | {"LEVERET_TOPOLOGY__PREFIX": run.names.prefix}
    process = leveret.start(*words, log=daemon.log, env=env)
    try:
        while process.poll() is None and not await is_under_way():  # noqa: ASYNC110 (another process works)
            await asyncio.sleep(0.001)
        process.send_signal(getattr(signal, run.cut))
        return await wait_exit(process, PATIENCE_S) != 0
    finally:
        await stop(process)


async def commanded(bench: Bench, run: Run, url: str, daemon: Daemon, parked: Parked) -> bool:
    """Let the command look, then replay others; return whether it went as planned."""
    words = ("parked", *argv_of(run, parked))
    env = daemon.env | {"LEVERET_TOPOLOGY__PREFIX": run.names.prefix}

    async def whole(*words: str) -> bool:
        process = leveret.start(*words, log=daemon.log, env=env)
        try:
            return await wait_exit(process, PATIENCE_S) == 0
        finally:
            await stop(process)

    connection = await connect(url)
    try:
        channel = await connection.channel()
        if run.cut:
            went = await cut(run, channel, daemon, words)
            tries = 0 if run.command in ("replay", "purge") else CUT_TRIES
            while not went and tries:
                went, tries = await cut(run, channel, daemon, words), tries - 1
        else:
            went = await whole(*words)
        while (await channel.queue_declare(run.names.parked, passive=True)).consumer_count:  # noqa: ASYNC110 (the broker counts)
            await asyncio.sleep(0.02)  # until the entries that a killed process held came back
        replayed = await whole("parked", "replay", *parked.others)
    finally:
        await connection.close()
    if not (went and replayed):
        bench.say(f"{run}: went as planned: {went}; the replay after it: {replayed}")
    return went


async def drain(url: str, queue: str) -> Counter[str]:
    """Empty a queue; return how often each event id was there."""
    connection = await connect(url)
    try:
        channel = await connection.channel()
        inbox: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        left, asked = 0, time.monotonic()
        while not left and time.monotonic() < asked + PATIENCE_S:  # 0 until the restarted queue has a leader
            left = (await channel.queue_declare(queue, passive=True)).message_count or 0
        await channel.basic_consume(queue, inbox.put, no_ack=True)
        async with asyncio.timeout(PATIENCE_S):
            messages = [await inbox.get() for _ in range(left)]
    finally:
        await connection.close()
    return Counter(str((one.header.properties.headers or {}).get("leveret-event")) for one in messages)


def archived(daemon: Daemon) -> Counter[str]:
    """Return how often each event id is in the archive."""
    found: Counter[str] = Counter()
    for path in (daemon.home / "archive").glob("purged-*"):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                found[str(json.loads(line)["event_id"])] += 1
    return found


async def look_up(run: Run, url: str, daemon: Daemon, parked: Parked) -> Found:
    """Find each entry of a run.

    A kill -9 may hit a replay or a purge between confirm and ack: that one entry may be in two places.
    """
    places = await drain(url, run.names.parked) + await drain(url, run.names.replay) + archived(daemon)
    lost = sum(1 for event in parked.ids if not places[event])
    doubled = sum(places[event] - 1 for event in parked.ids if places[event] > 1)
    excused = run.cut == "SIGKILL" and run.command in ("replay", "purge")
    return Found(lost, max(doubled - excused, 0))


async def batch(
    bench: Bench, broker: Broker, daemon: Daemon, runs: Sequence[Run], end: str
) -> Sequence[Found]:
    """Do the runs, restart the broker, and find the entries of those that went as planned."""
    [row] = await daemon.listing("subscriptions", "list")
    begun = []
    for run in runs:
        parked = await park(broker.url, run, str(row["id"]), bench.count(ENTRIES, least=80))
        began = time.monotonic()
        if await commanded(bench, run, broker.url, daemon, parked):
            begun.append((run, parked))
        bench.say(f"{run}: {time.monotonic() - began:.1f} s")
    await asyncio.sleep(SETTLED_S)
    await (broker.stop() if end == "stop" else broker.kill())
    await broker.start()
    found = []
    for run, parked in begun:
        one = await look_up(run, broker.url, daemon, parked)
        found.append(one)
        if one != Found(0, 0):
            bench.note(f"parked_look {run}, {end}", f"lost {one.lost}, doubled {one.doubled}")
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Do every run once before a clean stop of the broker, and once before a kill -9."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # in the background we may ignore it, and our child
    ways = list(product(COMMANDS, CUTS))
    found: list[Found] = []
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url) as daemon:
        await daemon.subscribe([subscription("target", "http://127.0.0.1:9/hook")])
        for turn, end in enumerate(ENDS):
            runs = [Run(turn * len(ways) + at, *way) for at, way in enumerate(ways)]
            found += await batch(bench, broker, daemon, runs, end)
    return [
        Measured(name="parked_look_lost", value=sum(one.lost for one in found), n=len(found)),
        Measured(name="parked_look_doubled", value=sum(one.doubled for one in found), n=len(found)),
    ]


PROOF = Proof("parked_look", GOALS, prove)
