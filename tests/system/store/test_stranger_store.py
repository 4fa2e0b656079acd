"""The real daemon with a store that is empty, foreign, older or gone: nothing is lost (fault 81)."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.broker.load import ready_counts
from tests.support.processes.children import stop
from tests.support.servers.receiver import Receiver
from tests.support.stores import copied, put_back
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, deliveries, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

REMEDY = "leveret store adopt"
DUE = ["leveret.due.00", "leveret.due.01"]
LANES = ["leveret.lane.00", "leveret.lane.01"]
TARGET = "/retry-after/owed?s=0&status=503&times=1"
PATIENT = {"max_attempts": 30, "base_s": 3, "multiplier": 1, "max_s": 3, "jitter": 0}


@asynccontextmanager
async def strange(daemon: Daemon) -> AsyncIterator[Daemon]:
    """Run a daemon that will not become ready."""
    daemon.spawn()
    try:
        await daemon.logged("daemon.started")
        yield daemon
    finally:
        await stop(daemon.process, 10)


async def owing(daemon: Daemon, publisher: EventPublisher, receiver: Receiver) -> list[str]:
    """Let deliveries wait on the ladder and fresh events in the lanes, and stop the daemon."""
    await daemon.apply(to(receiver, TARGET, "t", retry=PATIENT, breaker={"failures": 0}))
    waiting = await publisher.publish_many("t", 20)
    await until(lambda: tried(receiver) >= set(waiting), "each was tried")
    assert await daemon.stop() == 0
    return [*waiting, *await publisher.publish_many("t", 10)]


def tried(receiver: Receiver) -> set[str]:
    """Return the events that reached the endpoint."""
    return {request.webhook_id for request in requests_of(receiver, TARGET)}


async def parked_in_lanes(vhost: str) -> int:
    """Return how many fresh events are in the lanes."""
    return sum((await ready_counts(vhost, LANES)).values())


async def all_due(daemon: Daemon, vhost: str, count: int) -> None:
    """Return once *count* messages are due, as the metrics of *daemon* show it."""
    try:
        await until(lambda: daemon.metric("leveret_queue_messages", queue="due") == count)
    except AssertionError as error:
        shown = daemon.metric("leveret_queue_messages", queue="due")
        ready = await ready_counts(vhost, [*DUE, *LANES])
        raise AssertionError(f"{shown:.0f} of {count} are due, ready: {ready}") from error


@pytest.mark.parametrize("other", ["empty", "foreign"])
async def test_another_home_takes_nothing(vhost: str, tmp_path: Path, receiver: Receiver, other: str) -> None:
    """Fault 81: red with the remedy; due and fresh messages stay, and arrive with the right store."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        ids = await owing(daemon, publisher, receiver)
        left = len(tried(receiver) - deliveries(receiver, TARGET).keys())  # a slow machine delivered some
        stranger = Daemon(tmp_path, vhost, name="stranger")
        if other == "foreign":
            await stranger.apply(to(receiver, "/ok/foreign", "other"))

        async with strange(stranger):
            await until(lambda: REMEDY in stranger.unready(), "/readyz names the remedy")
            line = await stranger.logged("store.doubted")
            assert line["doubt"] == other
            assert stranger.metric("leveret_store_trusted") == 0
            await all_due(stranger, vhost, left)
            assert sum((await ready_counts(vhost, DUE)).values()) == left
            assert await parked_in_lanes(vhost) == 10
            assert stranger.metric("leveret_deliveries_total") == 0
            assert stranger.metric("leveret_events_total") == 0
            assert await stranger.stop() == 0

        await daemon.start()
        await all_delivered(receiver, TARGET, ids)


async def test_a_second_worker_with_a_store_of_its_own_takes_nothing(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 81: it was 243 of 300 deliveries that such a worker cancelled."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, TARGET, "t", retry=PATIENT, breaker={"failures": 0}))
        second = Daemon(tmp_path, vhost, name="second")
        await second.apply(to(receiver, "/ok/second", "other"))
        async with strange(second):
            await until(lambda: REMEDY in second.unready(), "/readyz names the remedy")
            ids = await publisher.publish_many("t", 40)
            await all_delivered(receiver, TARGET, ids)
            assert second.metric("leveret_events_total") == 0
            assert daemon.unready() == ""


async def test_yesterdays_backup_waits_until_it_is_adopted(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 81: red while running and at the start; adopted, it delivers; unknown subscriptions wait on."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/old", "old"))
        yesterday = copied(daemon.store_path)
        ids = await owing(daemon, publisher, receiver)
        today = daemon.home / "today.db"
        shutil.copyfile(daemon.store_path, today)
        put_back(daemon.store_path, yesterday)

        async with strange(daemon):
            await until(lambda: "is older" in daemon.unready(), "/readyz is red")
            with pytest.raises(
                RuntimeError, match=r"stdin is not a terminal, so nobody can be asked; give --yes"
            ):
                await daemon.cli("store", "adopt")
            [row] = await daemon.listing("store", "show")
            assert row["doubt"] == "older"
            await daemon.cli("store", "adopt", "--yes")
            await until(lambda: daemon.unready() == "", "/readyz is green")
            await all_delivered(receiver, "/ok/old", [await publisher.publish("old")])
            await daemon.logged("subscription.unknown")
            assert daemon.metric("leveret_deliveries_total", verdict="cancelled") == 0

            await daemon.apply(to(receiver, TARGET, "t", retry=PATIENT, breaker={"failures": 0}))
            await daemon.cli("waiting", "kick", "--all")
            await all_delivered(receiver, TARGET, ids[:20])


async def test_a_folder_that_is_swapped_under_a_daemon(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 81: it delivers from memory, reports it, and is well when the folder is back."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/ok/swapped", "t"))
        aside = daemon.home.with_name("aside")
        daemon.home.rename(aside)
        await until(lambda: "nothing is cancelled" in daemon.unready(), "/readyz says that it has gone")
        await all_delivered(receiver, "/ok/swapped", [await publisher.publish("t")])

        another = Daemon(tmp_path, vhost, {"LEVERET_HOME": str(daemon.home)}, "new")
        await another.apply(to(receiver, "/ok/new", "new"))
        await until(lambda: REMEDY in daemon.unready(), "/readyz names the remedy")
        await all_delivered(receiver, "/ok/swapped", [await publisher.publish("t")])

        shutil.rmtree(daemon.home)
        aside.rename(daemon.home)
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert daemon.count("delivery.cancelled") == 0


async def test_a_store_that_is_away_at_the_start(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Faults 68, 81: nothing is taken until it is there."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        ids = await owing(daemon, publisher, receiver)
        daemon.store_path.rename(aside := daemon.home / "aside.db")
        async with strange(daemon):
            await daemon.logged("store.failed")
            await until(lambda: "cannot be loaded" in daemon.unready(), "/readyz is red")
            assert await parked_in_lanes(vhost) == 10
            aside.rename(daemon.store_path)
            await until(lambda: daemon.unready() == "", "/readyz is green")
            await all_delivered(receiver, TARGET, ids)


async def test_a_removed_subscription_is_archived(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 31: cancelled by the worker, each with the body and the name of the person that removed it."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        entry = to(receiver, "/status/503", "t", retry=PATIENT, breaker={"failures": 0})
        await daemon.apply(entry, to(receiver, "/ok/left", "left"))
        ids = await publisher.publish_many("t", 30)
        await until(lambda: len(requests_of(receiver, "/status/503")) >= len(ids), "each was tried")
        await daemon.apply(to(receiver, "/ok/left", "left"), prune=True)

        def cancelled() -> float:
            return daemon.metric("leveret_deliveries_total", verdict="cancelled")

        await until(lambda: cancelled() == len(ids), "all are cancelled")
        [path] = (daemon.home / "archive").glob("cancelled-*.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert {line["event_id"] for line in lines} == set(ids)
        assert all("was deleted" in line["detail"] and line["body_base64"] for line in lines)


async def test_two_empty_stores_then_one_gets_subscriptions(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 81: the first store that holds something is the right one; the empty worker stops taking."""
    async with running(tmp_path, vhost) as one, running(tmp_path, vhost, name="two") as two:
        await one.apply(to(receiver, "/ok/one", "t"))
        await until(lambda: REMEDY in two.unready(), "the other one is red")
        async with EventPublisher(vhost) as publisher:
            await all_delivered(receiver, "/ok/one", await publisher.publish_many("t", 40))
        assert two.metric("leveret_events_total") == 0
