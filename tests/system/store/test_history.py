"""The history of a real daemon, on both databases: requests and answers, and a store that is away."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from consumer.edges.history.sqlite_history import FILE_NAME
from tests.support.processes.children import child_of
from tests.support.processes.postgres import Postgres
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until


@pytest.fixture(params=["sqlite", "postgres"])
async def daemon(
    request: pytest.FixtureRequest, vhost: str, tmp_path: Path, postgres: Postgres
) -> AsyncIterator[Daemon]:
    """A daemon on each kind of database in turn."""
    url = await postgres.database() if request.param == "postgres" else ""
    async with running(tmp_path, vhost, {"LEVERET_DATABASE_URL": url} if url else {}) as daemon:
        yield daemon


async def test_each_attempt_has_a_row_with_its_answer(daemon: Daemon, vhost: str, receiver: Receiver) -> None:
    """S1-2: an event that is parked after three attempts; the rows are those that the receiver saw."""
    target = "/status/503"
    await daemon.apply(to(receiver, target, "acme"))
    async with EventPublisher(vhost) as publisher:
        event_id = await publisher.publish("acme")
    await daemon.parked(1, event_id=event_id)
    await shown(lambda: daemon.steps(event_id), lambda row: row.step == "parked")

    found = await daemon.steps(event_id)

    assert [(row.step, row.reason, row.number) for row in found] == [
        ("received", "", 1),
        ("attempt", "retry", 1),
        ("attempt", "retry", 2),
        ("attempt", "park", 3),
        ("parked", "exhausted", 3),
    ]
    attempts = [row for row in found if row.step == "attempt"]
    seen = [one for one in receiver.requests if one.webhook_id == event_id]
    assert [row.status for row in attempts] == [one.status for one in seen]
    assert {(row.kind, row.tenant, row.type) for row in attempts} == {("http_5xx", "acme", "order.created")}
    assert all(row.answer is not None for row in attempts)


async def test_the_rest_is_written_at_the_end(daemon: Daemon, vhost: str, receiver: Receiver) -> None:
    """A daemon that is stopped at once after a delivery loses no row."""
    await daemon.apply(to(receiver, "/ok/last", "acme"))
    async with EventPublisher(vhost) as publisher:
        event_id = await publisher.publish("acme")
        await all_delivered(receiver, "/ok/last", [event_id])
    assert await daemon.stop() == 0

    assert [(row.step, row.reason) for row in await daemon.steps(event_id)] == [
        ("received", ""),
        ("attempt", "delivered"),
    ]


async def test_a_locked_history_holds_no_delivery_up(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """Fault 68: rows wait in memory; they are written once the lock is gone, and none is counted as lost."""
    await shared.apply(to(receiver, "/ok/held", "held"))
    first = await publisher.publish("held")
    await shown(lambda: shared.steps(first), lambda row: row.step == "attempt")
    failures = shared.count("history.failed")
    with closing(sqlite3.connect(shared.home / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        second = await publisher.publish("held")
        await all_delivered(receiver, "/ok/held", [first, second])
        await until(lambda: shared.count("history.failed") > failures, "the fault is logged")
        assert await shared.steps(second) == []

    await shown(lambda: shared.steps(second), lambda row: row.step == "attempt")
    await shared.logged("history.recovered")
    assert shared.metric("leveret_history_dropped_total", reason="full") == 0


@pytest.mark.parametrize("daemon", ["sqlite"], indirect=True)
async def test_a_killed_child_costs_no_row(daemon: Daemon, vhost: str, receiver: Receiver) -> None:
    """Fault 68: another child writes what the killed one had not, and the log names the cause."""
    await daemon.apply(to(receiver, "/ok/child", "acme"))
    async with EventPublisher(vhost) as publisher:
        first = await publisher.publish("acme")
        await shown(lambda: daemon.steps(first), lambda row: row.step == "attempt")
        os.kill(child_of(daemon.process, b"consumer.edges.history"), signal.SIGKILL)
        second = await publisher.publish("acme")

        await shown(lambda: daemon.steps(second), lambda row: row.step == "attempt")

    failed = await daemon.logged("history.failed")
    assert "was ended by signal 9" in failed["detail"]
    await daemon.logged("history.recovered")
    assert [row.step for row in await daemon.steps(first)] == ["received", "attempt"]
    for reason in ("full", "refused"):
        assert daemon.metric("leveret_history_dropped_total", reason=reason) == 0
