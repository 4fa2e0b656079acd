"""Commands that take deliveries away, run without a terminal and without ``--yes``: nothing may go."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

EVENTS = 40
LONG_S = 3_600  #: each waiting delivery stays on its rung throughout
SETTLE_S = 60.0

GOALS = (Goal(name="destroyed_unasked", text="0", unit="commands", n=6),)


@dataclass(frozen=True, slots=True)
class Held:
    """A command and the deliveries that it could destroy."""

    subscriptions: frozenset[str]
    waiting: frozenset[str]
    parked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Command:
    """One command that would destroy, and the subscriptions file that it reads from stdin."""

    name: str
    words: tuple[str, ...]
    file: Sequence[Mapping[str, object]] | None = None


def commands(waits: Mapping[str, object], parks: Mapping[str, object]) -> Sequence[Command]:
    """Return every command that makes waiting or parked deliveries worthless."""
    prune = ("subscriptions", "apply", "--prune", "-")
    return (
        Command("remove waiting deliveries", ("subscriptions", "remove", "t00/waits")),
        Command("remove parked deliveries", ("subscriptions", "remove", "t00/parks", "--json")),
        Command("remove both", ("subscriptions", "remove", "t00/parks", "t00/waits")),
        Command("prune one", prune, [parks]),
        Command("prune after a new tenant", prune, [{**waits, "tenant": "t01"}, parks]),
        Command("prune after a new name", prune, [waits, {**parks, "name": "parks-2"}]),
        Command("prune all", prune, []),
        Command("cancel waiting deliveries", ("waiting", "cancel", "--tenant", "t00")),
        Command("purge parked deliveries", ("parked", "purge", "--older-than", "0s")),
    )


async def held(daemon: Daemon) -> Held:
    """List everything that could be lost."""
    subscriptions = await daemon.listing("subscriptions", "list")
    waiting = await daemon.listing("waiting", "list")
    parked = await daemon.listing("parked", "list")
    return Held(
        subscriptions=frozenset(str(row["id"]) for row in subscriptions),
        waiting=frozenset(str(row["delivery_id"]) for row in waiting),
        parked=frozenset(str(row["id"]) for row in parked),
    )


async def run_unasked(daemon: Daemon, command: Command) -> subprocess.CompletedProcess[str]:
    """Run a command as a script does: its stdin is no terminal."""
    text = (
        None if command.file is None else yaml.safe_dump({"subscriptions": [dict(e) for e in command.file]})
    )

    def run() -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "consumer", *command.words]
        return subprocess.run(
            argv, env=daemon.env, input=text or "", capture_output=True, text=True, timeout=120, check=False
        )

    return await asyncio.to_thread(run)


async def settled(daemon: Daemon, count: int) -> Held:
    """Return the deliveries that could be lost, once *count* wait and as many are parked."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = await held(daemon)
        if len(now.waiting) == len(now.parked) == count or time.monotonic() > deadline:
            return now
        await asyncio.sleep(0.2)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let deliveries wait and park, run each command, and look whether anything has gone."""
    count = bench.count(EVENTS, 4)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {"waits": "/status/503/waits", "parks": "/status/503/parks"}) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        slow = retry(base_s=LONG_S, max_s=LONG_S, multiplier=1)
        waits = subscription("waits", sink.url("waits"), retry=slow, breaker=NO_BREAKER)
        parks = subscription("parks", sink.url("parks"), retry=retry(max_attempts=1), breaker=NO_BREAKER)
        await daemon.subscribe([waits, parks])
        await daemon.start()
        await publish(broker.url, make_events("dst", count))
        whole = await settled(daemon, count)
        destroyed = []
        every = commands(waits, parks)
        for command in every:
            done = await run_unasked(daemon, command)
            now = await held(daemon)
            if done.returncode == 0 or now != whole:
                destroyed.append(command.name)
                await daemon.subscribe([waits, parks])
            bench.say(f"{command.name}: exit {done.returncode}; {done.stderr.strip()[-300:]}")
    bench.note("destroyed_by", destroyed)
    valid = len(whole.waiting) == len(whole.parked) == count
    return [Measured(name="destroyed_unasked", value=len(destroyed), n=len(every), valid=valid)]


PROOF = Proof("destroyed", GOALS, prove)
