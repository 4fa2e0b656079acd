"""Parked entries after three failed replays, against the receiver's own record of their requests.

One endpoint fails always. Every delivery is parked, replayed and parked again, three times; then each entry
has to contain each request that its endpoint got, in order, with its status, its replay and the policy's
wait after it, and the arrival that it had at first.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

ENTRIES = 500
REPLAYS = 3
ATTEMPTS = 3  #: of one run
WAIT_S = 0.25  #: between two of them
END_S = 300.0  #: longest wait until every delivery is parked
CLOCK_S = 0.1  #: the receiver reads a request after the daemon began it

GOALS = (Goal(name="parked_history_lost", text="0", unit="entries", n=ENTRIES),)


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _fits(attempt: Mapping[str, Any], seen: Seen) -> bool:
    began, lasted_s = _unix(attempt["at"]), float(attempt["duration_s"])
    return bool(attempt["status"] == seen.status and -0.002 <= seen.began - began <= CLOCK_S + lasted_s)


def is_whole(
    entry: Mapping[str, Any], requests: Sequence[Seen], first_arrival: str, replays: int = REPLAYS
) -> bool:
    """Say whether an entry has every attempt, the first arrival and the number of replays.

    Args:
        entry: As ``parked export`` prints it.
        requests: The receiver's record, in order.
        first_arrival: ``arrived_at`` of the entry before its first replay.
        replays: How often it was replayed.
    """
    attempts: Sequence[Mapping[str, Any]] = entry["attempts"]
    numbered = [(run, number) for run in range(replays + 1) for number in range(1, ATTEMPTS + 1)]
    return (
        bool(entry["replays"] == replays and entry["arrived_at"] == first_arrival)
        and entry["failed_attempts"] == len(requests) == len(attempts)
        and [(a["replay"], a["number"]) for a in attempts] == numbered
        and all(_fits(a, seen) for a, seen in zip(attempts, requests, strict=True))
        and all(a["wait_s"] == (None if a["number"] == ATTEMPTS else WAIT_S) for a in attempts)
    )


async def _parked(daemon: Daemon, count: int, replays: int) -> Sequence[Mapping[str, Any]]:
    """Wait until so many entries are parked after so many replays, and return all entries."""
    deadline = time.monotonic() + END_S
    while True:
        exported = (await daemon.cli("parked", "export")).splitlines()
        rows: Sequence[Mapping[str, Any]] = [json.loads(line) for line in exported]
        if sum(row["replays"] == replays for row in rows) >= count or time.monotonic() > deadline:
            return rows
        await asyncio.sleep(1.0)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Park, replay three times, and compare."""
    count = bench.count(ENTRIES, least=20)
    policy = retry(max_attempts=ATTEMPTS, base_s=WAIT_S, multiplier=1, max_s=WAIT_S, jitter=0)
    settings = {"LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0]"}
    async with Broker(bench) as broker, Sink(bench.folder, {"dead": "/status/503"}) as sink:
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            dead = subscription("dead", sink.url("dead"), retry=policy, breaker=dict(NO_BREAKER))
            await daemon.subscribe([dead])
            await daemon.start()
            await publish(broker.url, make_events("parked", count))
            rows = await _parked(daemon, count, 0)
            first = {str(row["event_id"]): str(row["arrived_at"]) for row in rows}
            for turn in range(1, REPLAYS + 1):
                bench.say(f"replay {turn} of {len(first)} entries")
                await daemon.cli("parked", "replay", "--all")
                rows = await _parked(daemon, count, turn)
        requests: dict[str, list[Seen]] = defaultdict(list)
        for seen in sorted(sink.read(), key=lambda each: each.began):
            requests[seen.id].append(seen)
    by_event: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_event[str(row["event_id"])].append(row)
    wrong = [
        event
        for event, arrived in first.items()
        if len(by_event[event]) != 1 or not is_whole(by_event[event][0], requests[event], arrived)
    ]
    if wrong:
        bench.note("parked_history_example", [by_event[wrong[0]][:1], len(requests[wrong[0]])])
    return [Measured(name="parked_history_lost", value=len(wrong) + count - len(first), n=len(first))]


PROOF = Proof("parked_history", GOALS, prove)
