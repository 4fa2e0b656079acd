"""Two workers on one store: an event that one of them settled is not sent again; one that is owed is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.postgres import Postgres
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import shown, until

NewWorker = Callable[[str], Daemon]


@pytest.fixture(params=["sqlite", "postgres"])
async def worker(request: pytest.FixtureRequest, vhost: str, tmp_path: Path, postgres: Postgres) -> NewWorker:
    """Return how to make a worker; all of them share the broker and one store of each kind in turn."""
    settings = {"LEVERET_EVENTS__DEDUPE_WINDOW_S": "300", "LEVERET_HOME": str(tmp_path / "home")}
    if request.param == "postgres":
        settings["LEVERET_DATABASE_URL"] = await postgres.database()
    return lambda name: Daemon(tmp_path, vhost, settings, name)


async def test_another_worker_recognises_a_settled_event(
    worker: NewWorker, vhost: str, receiver: Receiver
) -> None:
    """S1-15: the first worker is killed; the second one acks the repeated event and delivers the next."""
    first, second = worker("first"), worker("second")
    target = "/ok/once"
    await first.apply(to(receiver, target, "acme"))
    try:
        await first.start()
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("acme")
            await shown(lambda: first.steps(event_id), lambda row: row.step == "settled")
            await first.kill()
            await second.start()

            await publisher.publish("acme", event_id=event_id)
            await second.logged("event.repeated")
            other = await publisher.publish("acme")
            await all_delivered(receiver, target, [event_id, other])

        assert len(requests_of(receiver, target, event_id)) == 1
        assert second.metric("leveret_events_total", outcome="duplicate") == 1
        assert second.metric("leveret_history_lookups_missed_total") == 0
    finally:
        await first.__aexit__()
        await second.__aexit__()


async def test_a_worker_killed_before_the_fan_out_loses_no_event(
    worker: NewWorker, vhost: str, receiver: Receiver
) -> None:
    """S1-15, fault 57: the store has the row of the arrival, and the broker gives the event out again."""
    first, second = worker("first"), worker("second")
    target = "/slow/owed?s=4"
    await first.apply(to(receiver, target, "acme"))
    try:
        await first.start()
        async with EventPublisher(vhost) as publisher:
            event_id = await publisher.publish("acme")
            await shown(lambda: first.steps(event_id), lambda row: row.step == "received")
            await first.kill()
            assert [row.step for row in await first.steps(event_id)] == ["received"]
            await second.start()

            await until(lambda: len(requests_of(receiver, target, event_id)) == 2, "it is sent again")
            await shown(lambda: first.steps(event_id), lambda row: row.step == "settled")
        assert second.metric("leveret_events_total", outcome="duplicate") == 0
    finally:
        await first.__aexit__()
        await second.__aexit__()
