"""Replay jobs of a real daemon: counted before, redirected and followed; entries stay complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.servers.receiver import Receiver
from tests.support.system.command import command
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher


async def leveret(daemon: Daemon, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run one command with ``--json``; return exit code, rows and stderr."""
    done = await command(daemon, *arguments, "--json")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


async def test_a_job_is_counted_before_and_redirected(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """S1-5: the dry run counts and sends nothing; the job sends each entry to another subscription, once."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        bad = to(receiver, "/status/400/bad", "acme")
        await daemon.apply(bad)
        for number in range(3):
            await publisher.publish("acme", event_id=f"ord-{number}")
        await daemon.parked(3)
        await daemon.apply(bad, to(receiver, "/ok/good", "acme", events=["never.*"]))
        [good] = [entry.id for entry in await daemon.entries() if entry.url.endswith("/ok/good")]

        code, [counted], _ = await leveret(daemon, "parked", "replay", "--all", "--dry-run")
        assert (code, counted["count"]) == (0, 3)
        assert len(await daemon.listing("parked", "list")) == 3
        to_good = ("--tenant", "acme", "--to", good, "--rate", "100", "--follow")
        code, rows, _ = await leveret(daemon, "parked", "replay", "--all", *to_good)

        assert (code, rows[0]["state"], rows[-1]["state"]) == (0, "running", "done")
        assert (rows[-1]["replayed"], rows[-1]["refused"]) == (3, 0)
        await all_delivered(receiver, "/ok/good", [f"ord-{number}" for number in range(3)])
        assert [len(requests_of(receiver, "/ok/good", f"ord-{number}")) for number in range(3)] == [1, 1, 1]
        assert await daemon.listing("parked", "list") == []
        assert (await leveret(daemon, "jobs", "list"))[1][0]["id"] == rows[0]["id"]
        assert (await leveret(daemon, "jobs", "cancel", rows[0]["id"]))[0] == 1
        assert (await leveret(daemon, "jobs", "show", "job_x"))[0] == 1


async def test_a_replay_that_fails_parks_the_whole_history_again(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """S1-3, S1-5: every attempt over all replays with its wait, the first arrival, the count of replays."""
    policy = {"max_attempts": 2, "base_s": 0.25, "max_s": 0.25, "jitter": 0}
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/status/503/dead", "acme", retry=policy))
        await publisher.publish("acme", event_id="ord-1")
        [first] = await daemon.parked(1, event_id="ord-1", replays=0)

        await leveret(daemon, "parked", "replay", "--all")
        [again] = await daemon.parked(1, event_id="ord-1", replays=1)

    assert (again["id"], again["arrived_at"], again["failed_attempts"]) == (
        first["id"],
        first["arrived_at"],
        4,
    )
    assert [(a["replay"], a["number"], a["status"], a["wait_s"]) for a in again["attempts"]] == [
        (0, 1, 503, 0.25),
        (0, 2, 503, None),
        (1, 1, 503, 0.25),
        (1, 2, 503, None),
    ]
    assert again["attempts"][:2] == first["attempts"]
