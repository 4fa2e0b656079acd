"""Waiting deliveries and pauses, controlled from the command line while the daemon runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.processes.children import LOOK_S
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import PATIENCE_S, until

LONG = {"max_attempts": 5, "base_s": 600, "multiplier": 1, "max_s": 600, "jitter": 0}
RUNGS = {"LEVERET_TOPOLOGY__RUNGS_S": "[0.1,0.5,60,600]"}
BOUNDED = {**RUNGS, "LEVERET_LIMITS__WAITING_BYTES": str(1024 * 1024)}
DOWN, FINE = "/status/503/full", "/ok/full"
FAILING: dict[str, Any] = {"retry": LONG, "breaker": {"failures": 0}}
BIG = b'"' + b"x" * 100_000 + b'"'


async def steer(daemon: Daemon, *words: str) -> list[dict[str, Any]]:
    """Run a command and return its rows."""
    return objects(await command(daemon, *words, "--json"))


async def test_waiting_and_pauses_are_steered(tmp_path: Path, vhost: str, receiver: Receiver) -> None:
    """List, kick and cancel by tenant, subscription, event; pause and resume."""
    once, down = "/flaky/once?share=0&status=503", "/status/503/down"
    async with running(tmp_path, vhost, RUNGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(
            to(receiver, down, "down", retry=dict(LONG), breaker={"failures": 0}),
            to(receiver, once, "held"),
        )
        first, second = await publisher.publish("down"), await publisher.publish("down")
        await until(lambda: len(requests_of(receiver, down)) == 2, "two attempts")

        # list
        await until(lambda: daemon.metric("leveret_retries_total", attempt="1") == 2, "both wait")
        rows = await steer(daemon, "waiting", "list", "--tenant", "down")
        while len(rows) < 2:
            rows = await steer(daemon, "waiting", "list", "--tenant", "down")
        assert {row["event_id"] for row in rows} == {first, second}
        assert {(row["failed_attempts"], row["last_failure_code"]) for row in rows} == {(1, "503")}
        assert await steer(daemon, "waiting", "list", "--event", "no-such") == []

        # kick
        assert [row["event_id"] for row in await steer(daemon, "waiting", "kick", "--event", first)] == [
            first
        ]
        await until(lambda: len(requests_of(receiver, down, first)) == 2, "the second attempt of the kicked")
        assert len(requests_of(receiver, down, second)) == 1

        # cancel
        refused = await command(daemon, "waiting", "cancel", "--event", second)
        assert refused.returncode == 2
        assert (await command(daemon, "waiting", "kick")).returncode == 2
        [gone] = await steer(daemon, "waiting", "cancel", "--event", second, "--yes")
        [archive] = (daemon.home / "archive").glob("cancelled-*.jsonl")
        assert json.loads(archive.read_text())["delivery_id"] == gone["delivery_id"]
        assert await steer(daemon, "waiting", "list", "--event", second) == []

        # pause and resume
        [held] = await steer(daemon, "pause", "--subscription", f"held/{once}")
        assert (held["scope"], held["subscription"]) == ("subscription", f"held/{once}")
        await until(lambda: "paused subscriptions" in daemon.health(), "the daemon knows")
        third = await publisher.publish("held")
        await until(lambda: daemon.metric("leveret_deferrals_total", reason="paused") >= 1, "it was put off")
        assert requests_of(receiver, once) == []
        assert (await command(daemon, "pause", "--tenant", "nobody")).returncode == 1
        assert (await command(daemon, "resume", "--all")).returncode == 1
        assert await steer(daemon, "resume", "--subscription", f"held/{once}") == []
        assert "paused subscriptions" not in daemon.health(), "the daemon knew before what waits was sent"
        await all_delivered(receiver, once, [third])


async def test_one_tenant_cannot_fill_the_waits_of_all(
    tmp_path: Path, vhost: str, receiver: Receiver
) -> None:
    """With more waiting than is free, a tenant's new failures are parked, and the others are delivered."""
    async with running(tmp_path, vhost, BOUNDED) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, DOWN, "full", **FAILING), to(receiver, FINE, "fine"))
        async with asyncio.timeout(PATIENCE_S):
            while not daemon.count("delivery.parked", tenant="full"):
                await publisher.publish("full", body=BIG)
                await asyncio.sleep(LOOK_S)
        assert {line["reason"] for line in daemon.lines("delivery.parked")} == {"backlog"}

        fresh = await publisher.publish("fine")
        await all_delivered(receiver, FINE, [fresh])
        assert "waiting_bytes is reached" not in daemon.health()


async def test_fresh_events_stay_in_their_lanes_when_too_much_waits(
    tmp_path: Path, vhost: str, receiver: Receiver
) -> None:
    """The broker's disk is bounded, and nothing is lost; the only tenant may fill it."""
    async with running(tmp_path, vhost, BOUNDED) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(
            to(receiver, DOWN, "full", **FAILING, events=["order.*"]),
            to(receiver, FINE, "full", events=["fine.*"]),
        )
        for _ in range(12):
            await publisher.publish("full", body=BIG)
        await daemon.logged("waiting.full")
        assert "waiting_bytes is reached" in daemon.health()

        fresh = await publisher.publish("full", "fine.made")
        await until(lambda: daemon.metric("leveret_queue_messages", queue="lane") == 1, "it stays", 30)
        assert requests_of(receiver, FINE) == []

        await steer(daemon, "waiting", "cancel", "--tenant", "full", "--yes")
        await daemon.logged("waiting.relieved")
        await all_delivered(receiver, FINE, [fresh])
