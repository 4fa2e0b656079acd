"""Commands that take parked entries or waiting deliveries out of their queues write the audit log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import aio_pika
import pytest

from consumer.core.subscription.subscription import subscription_id
from tests.support.builders.parked_queue import FEW_QUEUES, FEW_QUEUES_SETTINGS, failed, park_all
from tests.support.command_line import Run, text
from topology.declare import declare
from topology.plan import build_plan

SHOP = {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"]}
TILL = {"tenant": "beta", "name": "till", "url": "https://till.example/", "events": ["#"]}
SHOP_ID, TILL_ID = subscription_id("acme", "shop"), subscription_id("beta", "till")


@pytest.fixture
def desk(run: Run, vhost: str) -> Run:
    """The command line, with two subscriptions and six parked entries."""

    def invoke(*words: str, stdin: str | bytes | None = None, **settings: str) -> Any:
        return run(*words, stdin=stdin, **{"AMQP_URL": vhost, **FEW_QUEUES_SETTINGS, **settings})

    assert invoke("subscriptions", "apply", "-", stdin=text(SHOP, TILL)).exit_code == 0
    asyncio.run(park(vhost))
    return invoke


async def park(url: str) -> None:
    """Park four entries of acme and two of beta."""
    began = time.time() - 1_000
    owners = [("acme", SHOP_ID)] * 4 + [("beta", TILL_ID)] * 2
    messages = [(failed(number, *owner, began), began + number) for number, owner in enumerate(owners)]
    async with await aio_pika.connect(url) as connection:
        await declare(build_plan(FEW_QUEUES), connection)
        await park_all(connection, FEW_QUEUES.names, messages)


def lines(desk: Run, action: str) -> list[Mapping[str, Any]]:
    """Return the lines of an action, newest first."""
    done = desk("audit", "--action", action, "--json")
    return [json.loads(line) for line in done.output.splitlines()]


def test_a_replay_and_a_purge_are_audited(desk: Run) -> None:
    """Author, filter, tenant and number of entries; a command that changed nothing writes no line."""
    assert desk("parked", "replay", "--all", "--tenant", "acme", "--type", "never.*").exit_code == 0
    assert lines(desk, "parked") == []
    assert desk("parked", "replay", "--all", "--tenant", "beta").exit_code == 0
    assert desk("parked", "purge", "--older-than", "0s", "--yes").exit_code == 0

    purged, replayed = lines(desk, "parked")

    assert (replayed["action"], replayed["tenant"]) == ("parked.replayed", "beta")
    assert replayed["after"] == {"filter": {"tenant": "beta"}, "entries": 2}
    assert (purged["action"], purged["tenant"], purged["after"]["entries"]) == ("parked.purged", None, 4)
    assert purged["who"].startswith("cli:")


def test_a_job_is_audited_with_its_total(desk: Run) -> None:
    """The index counts the entries for which it was made."""
    assert desk("parked", "reindex").exit_code == 0
    made = json.loads(desk("parked", "replay", "--all", "--tenant", "acme", "--job", "--json").output)

    [line] = lines(desk, "job")

    assert (line["action"], line["target"], made["total"]) == ("job.made", made["id"], 4)


def test_a_command_without_a_store_makes_none(run: Run, vhost: str) -> None:
    """`waiting` works on the broker alone; a wrong state folder gets no store by the audit log."""

    async def prepare() -> None:
        async with await aio_pika.connect(vhost) as connection:
            await declare(build_plan(FEW_QUEUES), connection)

    asyncio.run(prepare())
    done = run("waiting", "kick", "--all", AMQP_URL=vhost, HOME="elsewhere", **FEW_QUEUES_SETTINGS)

    assert done.exit_code == 0, done.output
    assert run("audit", AMQP_URL=vhost, HOME="elsewhere", **FEW_QUEUES_SETTINGS).exit_code == 0
