"""``leveret trace`` and ``leveret tail`` beside a running daemon, with a real broker and real endpoints."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from tests.support.processes import leveret
from tests.support.processes.children import wait_exit, wait_until
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command, objects
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import PATIENCE_S, until

LONG = {"max_attempts": 5, "base_s": 600, "multiplier": 1, "max_s": 600, "jitter": 0}
ONCE = {"max_attempts": 1}
RUNGS = {"LEVERET_TOPOLOGY__RUNGS_S": "[0.1,0.5,60,600]"}


async def trace(daemon: Daemon, *words: str) -> list[dict[str, Any]]:
    """Run ``leveret trace`` and return its rows; none if nothing is known yet."""
    done = await command(daemon, "trace", *words, "--json")
    return objects(done) if done.returncode == 0 else []


async def traced(daemon: Daemon, event_id: str, *statuses: str) -> dict[str, Any]:
    """Wait until the deliveries of an event have these statuses, and return its trace."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not found or sorted(each["status"] for each in found[0]["deliveries"]) != sorted(statuses):
            found = await trace(daemon, event_id)
    return found[0]


async def test_the_story_of_an_event(tmp_path: Path, vhost: str, receiver: Receiver) -> None:
    """S2-7: delivered, waiting and parked deliveries of one event, an unmatched event, and a replay."""
    async with running(tmp_path, vhost, RUNGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(
            to(receiver, "/status/200/a", "acme", name="good"),
            to(receiver, "/status/503/b", "acme", name="slow", retry=dict(LONG), breaker={"failures": 0}),
            to(receiver, "/status/500/c", "acme", name="dead", retry=dict(ONCE), breaker={"failures": 0}),
            to(receiver, "/d", "acme", name="other", events=["never.*"]),
        )
        event = await publisher.publish("acme")
        found = await traced(daemon, event, "delivered", "waiting", "parked")
        by_name = {each["subscription"]: each for each in found["deliveries"]}
        assert by_name["acme/slow"]["steps"][0]["status"] == 503
        assert by_name["acme/slow"]["until"] > by_name["acme/slow"]["since"]
        assert by_name["acme/dead"]["parked_reason"] == "exhausted"
        assert [each["match_now"] for each in found["without_delivery"]] == ["pattern"]
        [live] = await trace(daemon, event, "--live")
        assert [each["status"] for each in live["deliveries"]] == [
            each["status"] for each in found["deliveries"]
        ]

        stranger = await publisher.publish("nobody")
        await until(lambda: daemon.metric("leveret_events_total", outcome="unmatched") == 1, "unmatched")
        async with asyncio.timeout(PATIENCE_S):
            while not (unmatched := await trace(daemon, stranger)):
                pass
        assert [each["step"] for each in unmatched[0]["steps"]] == ["unmatched"]

        assert (await command(daemon, "parked", "replay", "--all")).returncode == 0
        async with asyncio.timeout(PATIENCE_S):
            steps: list[str] = []
            while steps.count("parked") < 2:
                again = await traced(daemon, event, "delivered", "waiting", "parked")
                steps = [step["step"] for each in again["deliveries"] for step in each["steps"]]
        assert steps.count("replayed") == 1


async def test_tail_follows_attempts(tmp_path: Path, vhost: str, receiver: Receiver) -> None:
    """Each attempt appears while the daemon runs; Ctrl-C ends it with exit code 0."""
    async with running(tmp_path, vhost, RUNGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/status/200/a", "acme", name="good"))
        first = await publisher.publish("acme")
        await traced(daemon, first, "delivered")
        out, log = tmp_path / "tail.out", tmp_path / "tail.log"
        words = ("tail", "--tenant", "acme", "--json")
        tail = leveret.start(*words, log=log, out=out, env=daemon.env)
        while b"\n" not in out.read_bytes():  # its start is not visible, so events come until one is shown
            await publisher.publish("acme")
            await wait_until(lambda: b"\n" in out.read_bytes(), 0.5)
        step = json.loads(out.read_text().splitlines()[0])
        assert (step["step"], step["status"], step["reason"]) == ("attempt", 200, "delivered")
        assert step["event_id"] != first
        tail.send_signal(signal.SIGINT)
        assert await wait_exit(tail, 60) == 0
