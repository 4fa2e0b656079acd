"""Waiting deliveries are listed, sent and cancelled over HTTP, and each deed is in the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from tests.support.servers.receiver import Receiver
from tests.support.system.api import serving
from tests.support.system.command import command
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

LONG = {"max_attempts": 5, "base_s": 600, "multiplier": 1, "max_s": 600, "jitter": 0}
RUNGS = {"LEVERET_TOPOLOGY__RUNGS_S": "[0.1,0.5,60,600]"}
DOWN = "/status/503/far"


async def audited(daemon: Daemon, action: str) -> list[dict[str, Any]]:
    """Return the values after of the lines of the audit log with this action, the newest first."""
    done = await command(daemon, "audit", "--action", action, "--json")
    return [json.loads(line)["after"] for line in done.stdout.splitlines()]


async def test_waiting_deliveries_are_kicked_and_cancelled_over_http(
    tmp_path: Path, vhost: str, receiver: Receiver
) -> None:
    """By event, by endpoint, by tenant; a bound token reaches only its own; bodies go to the archive."""
    async with running(tmp_path, vhost, RUNGS) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(
            to(receiver, DOWN, "far", retry=dict(LONG), breaker={"failures": 0}),
            to(receiver, "/status/503/other", "other", retry=dict(LONG), breaker={"failures": 0}),
        )
        first, second = await publisher.publish("far"), await publisher.publish("far")
        foreign = await publisher.publish("other")
        await until(lambda: daemon.metric("leveret_retries_total", attempt="1") == 3, "all of them wait")
        async with serving(daemon) as api:
            bound = await api.token("--scope", "operate", "--tenant", "far")
            async with api.client(bound) as client:

                async def waiting() -> list[set[str]]:
                    answer = await client.get("/v1/waiting")
                    return [{row["event_id"] for row in answer.json()["items"]}]

                await shown(waiting, lambda ids: ids == {first, second})
                refused = await client.post("/v1/waiting/cancel", json={"tenant": "other"})
                kicked = await client.post("/v1/waiting/kick", json={"event": first})
                await until(lambda: len(requests_of(receiver, DOWN, first)) == 2, "the kicked one is sent")
                assert len(requests_of(receiver, DOWN, second)) == 1
                await shown(waiting, lambda ids: ids == {first, second})
                endpoint = (await client.get("/v1/endpoints")).json()["items"][0]["subscription_id"]
                both = await client.post(f"/v1/endpoints/{endpoint}/kick")
                await until(lambda: len(requests_of(receiver, DOWN)) == 5, "both are sent")
                await shown(waiting, lambda ids: ids == {first, second})
                nobody = await client.post("/v1/waiting/cancel", json={"event": foreign})
                gone = await client.post("/v1/waiting/cancel", json={"tenant": "far"})
                left = (await client.get("/v1/waiting")).json()["items"]
        archived = _archived(daemon)
        lines = [await audited(daemon, action) for action in ("waiting.kicked", "waiting.cancelled")]

    assert refused.status_code == 404
    assert [row["event_id"] for row in _rows(kicked)] == [first]
    assert both.json()["released"] == 2
    assert _rows(nobody) == left == []
    assert {row["event_id"] for row in _rows(gone)} == archived == {first, second}
    assert lines[0] == [{"released": 2}, {"filter": {"tenant": "far", "event": first}, "deliveries": 1}]
    assert [line["deliveries"] for line in lines[1]] == [2, 0]


def _rows(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["items"]
    return rows


def _archived(daemon: Daemon) -> set[str]:
    """Return the ids of the events that were cancelled."""
    files = (daemon.home / "archive").glob("cancelled-*.jsonl")
    return {json.loads(line)["event_id"] for file in files for line in file.read_text().splitlines()}
