"""Payloads, purges and rebuilds over HTTP, on a real parked queue: exact, archived, one command at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aio_pika
import pytest_asyncio

from consumer.core.store.audit import AuditFilter
from consumer.core.store.tokens import Scope
from consumer.edges.operate.parked.lock import Turn, holding
from tests.support.builders.parked_queue import FEW_QUEUES, FEW_QUEUES_SETTINGS, failed, park_all
from tests.support.builders.rows import SHOP
from tests.support.web import Api, opened_api, problem
from topology.declare import declare
from topology.plan import build_plan

LIST = "/v1/parked"
TILL = "sub_00000000000000ff"


@pytest_asyncio.fixture
async def parking(tmp_path: Path, vhost: str) -> AsyncIterator[tuple[Api, list[str]]]:
    """An API on a parked queue: entries of acme and, the last one, of beta, whose body is not text."""
    began = time.time() - 1_000
    messages = [(failed(number, "acme", SHOP, began), began + number) for number in range(5)]
    binary = failed(9, "beta", TILL, began)
    binary.event = replace(binary.event, body=b"\xff\x00\x01")
    async with await aio_pika.connect(vhost) as connection:
        await declare(build_plan(FEW_QUEUES), connection)
        ids = await park_all(connection, FEW_QUEUES.names, [*messages, (binary, began + 9)])
    async with opened_api(tmp_path / "home", AMQP_URL=vhost, **FEW_QUEUES_SETTINGS) as api:
        yield api, ids


async def test_an_entry_has_its_exact_payload(parking: tuple[Api, list[str]]) -> None:
    """Text as text, bytes in base64, and each attempt; the entry stays parked, and others are 404."""
    api, ids = parking
    async with await api.client_of() as client, await api.client_of(Scope.READ, "beta") as beta:
        rebuilt = (await client.post(f"{LIST}/reindex")).json()
        one = (await client.get(f"{LIST}/{ids[1]}")).json()
        binary = (await beta.get(f"{LIST}/{ids[5]}")).json()
        problem(await beta.get(f"{LIST}/{ids[1]}"), 404)
        problem(await client.get(f"{LIST}/prk_0"), 404)
        stats = (await client.get(f"{LIST}/stats")).json()

    assert (rebuilt["entries"], rebuilt["added"]) == (6, 6)
    assert (one["data"], one["data_base64"]) == ('{"number":1}', None)
    assert (one["id"], one["tenant"], one["reason"]) == (ids[1], "acme", "exhausted")
    assert [attempt["status"] for attempt in one["attempts"]] == [503]
    assert (binary["data"], binary["data_base64"]) == (None, "/wAB")
    assert (stats["entries"], stats["in_queue"], stats["gap"]) == (6, 6, 0)


async def test_requests_take_turns_and_another_command_is_named(
    parking: tuple[Api, list[str]], vhost: str
) -> None:
    """Two requests wait for each other; while a command has the entries in hand, the answer is 409."""
    api, ids = parking
    async with await api.client_of() as client:
        await client.post(f"{LIST}/reindex")
        both = await asyncio.gather(*(client.get(f"{LIST}/{one}") for one in ids[:2]))
        async with (
            await aio_pika.connect(vhost) as connection,
            holding(connection, FEW_QUEUES.names, Turn(command="leveret parked replay")),
        ):
            shown = problem(await client.get(f"{LIST}/{ids[0]}"), 409)
            purged = problem(await client.post(f"{LIST}/purge", json={"confirm": True}), 409)

    assert [answer.status_code for answer in both] == [200, 200]
    assert "`leveret parked replay` on" in shown["detail"]
    assert "`leveret parked replay` on" in purged["detail"]


async def test_a_purge_archives_and_is_audited(parking: tuple[Api, list[str]]) -> None:
    """A bound token purges its own entries alone: archived with their body, gone from queue and index."""
    api, ids = parking
    async with await api.client_of() as client, await api.client_of(Scope.OPERATE, "beta") as beta:
        await client.post(f"{LIST}/reindex")
        done = await beta.post(f"{LIST}/purge", json={"confirm": True})
        left = (await client.get(LIST)).json()
        missing = await client.get(f"{LIST}/{ids[5]}")
    home = api.context.settings.home
    archived = [
        json.loads(line) for file in (home / "archive").iterdir() for line in file.read_text().splitlines()
    ]
    [line] = await api.context.store.records.audit.lines(AuditFilter(action="parked.purged"), 10)

    assert done.json() == {"purged": 1, "archive": None, "items": None}
    assert [one["id"] for one in left["items"]] == ids[4::-1]
    assert missing.status_code == 404
    assert [(one["id"], one["body_base64"]) for one in archived] == [(ids[5], "/wAB")]
    assert (line.change.tenant, line.change.after["entries"]) == ("beta", 1)
    assert line.who.startswith("token:")
