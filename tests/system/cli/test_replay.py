"""A replay of events that were parked unread: as published, and past entries that stay."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import aio_pika

from consumer.edges.sqlite_file.file import FILE_NAME
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher

SOURCES = json.dumps([{"name": "legacy", "exchange": "shop.legacy", "tenant": "body:/company/id"}])
PARK_MISSING = {"LEVERET_EVENTS__MISSING_TENANT": "park"}


async def replay_all(daemon: Daemon) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Run ``parked replay --all``; return exit code, rows and the lines on stderr."""
    done = await command(daemon, "parked", "replay", "--all", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, rows, done.stderr.splitlines()


async def test_a_raw_replay_keeps_id_and_encoding(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """S1-5: parked for want of a tenant or for its size, mended in the settings, replayed as it was."""
    big = b'{"text":"' + b"a" * 5_000 + b'"}'
    strict = PARK_MISSING | {"LEVERET_EVENTS__MAX_EVENT_BYTES": "1024"}
    async with running(tmp_path, vhost, strict, "strict") as daemon, EventPublisher(vhost) as publisher:
        await publisher.publish(None, event_id="ord-1")
        await daemon.parked(1, event_id="ord-1", reason="bad_tenant")
        packed: dict[str, Any] = {"content_encoding": "gzip", "content_type": None}
        await publisher.publish("default", event_id="ord-2", body=gzip.compress(big), **packed)
        await daemon.parked(1, event_id="ord-2", reason="too_large")
        assert await daemon.stop() == 0

    async with running(tmp_path, vhost, name="lenient") as daemon:
        await daemon.apply(to(receiver, "/ok/mended", "default"))
        code, rows, errors = await replay_all(daemon)
        await all_delivered(receiver, "/ok/mended", ["ord-1", "ord-2"])

    assert (code, [row["event_id"] for row in rows], errors) == (0, ["ord-1", "ord-2"], [])
    assert {r.webhook_id for r in receiver.requests} == {"ord-1", "ord-2"}
    assert big in requests_of(receiver, "/ok/mended", "ord-2")[0].body


async def test_an_entry_of_a_source_stays_and_stops_nobody(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """S1-5: an entry that only its source can address is named with the remedy; later entries go."""
    connection = await aio_pika.connect(vhost)
    async with connection:
        channel = await connection.channel()
        legacy = await channel.declare_exchange("shop.legacy", "fanout", durable=True)
        async with (
            running(tmp_path, vhost, {"LEVERET_SOURCES": SOURCES}) as daemon,
            EventPublisher(vhost) as publisher,
        ):
            await daemon.apply(to(receiver, "/retry-after/later?s=0&times=3", "acme"))
            await legacy.publish(aio_pika.Message(b"no JSON", message_id="l1"), "whatever")
            [stays] = await daemon.parked(1, event_id="l1")
            await publisher.publish("acme", event_id="ord-1")
            await daemon.parked(1, event_id="ord-1", reason="exhausted")

            code, rows, errors = await replay_all(daemon)

            await all_delivered(receiver, "/retry-after/later?s=0&times=3", ["ord-1"])
            assert [row["id"] for row in await daemon.listing("parked", "list")] == [stays["id"]]
    assert (code, [row["event_id"] for row in rows]) == (1, ["ord-1"])
    assert errors == [
        f"leveret: {stays['id']} stays parked: it came from the exchange shop.legacy of a [[sources]] entry; "
        "publish it there again"
    ]


async def test_replayed_entries_are_shown_when_the_broker_fails(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """S1-5: the first entry goes, the exchange of the second is gone; both are reported, the second stays."""
    async with running(tmp_path, vhost, PARK_MISSING) as daemon, EventPublisher(vhost) as publisher:
        await daemon.apply(to(receiver, "/status/400/never", "acme"))
        await publisher.publish("acme", event_id="ord-1")
        await daemon.parked(1, event_id="ord-1")
        await publisher.publish(None, event_id="ord-2")
        [stays] = await daemon.parked(1, event_id="ord-2")
        assert await daemon.stop() == 0
        await publisher.channel.exchange_delete(daemon.names.events)

        code, rows, errors = await replay_all(daemon)

        assert [entry["id"] for entry in await daemon.parked(1)] == [stays["id"]]
    assert (code, [row["event_id"] for row in rows], len(errors)) == (1, ["ord-1"], 1)
    assert errors[0].startswith(f"leveret: {stays['id']} was not replayed and stays parked: ")


async def test_an_entry_whose_subscription_is_gone_stays(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 84, S1-5: a worker would cancel it. Named, exit 1; without a store nothing is sent."""
    async with running(tmp_path, vhost) as daemon, EventPublisher(vhost) as publisher:
        stays, goes = to(receiver, "/status/400/stays", "acme"), to(receiver, "/status/400/goes", "acme")
        await daemon.apply(stays, goes)
        await publisher.publish("acme", event_id="ord-1")
        entries = await daemon.parked(2, event_id="ord-1")
        assert await daemon.stop() == 0
    await daemon.apply(goes, prune=True)
    [left] = await daemon.entries()
    [kept] = [entry["id"] for entry in entries if entry["subscription_id"] != left.id]
    [gone] = [entry["subscription_id"] for entry in entries if entry["id"] == kept]

    away = daemon.home / FILE_NAME
    away.rename(daemon.home / "away")
    away.mkdir()
    without_store = await replay_all(daemon)
    away.rmdir()
    (daemon.home / "away").rename(away)
    code, rows, errors = await replay_all(daemon)

    assert without_store[:2] == (1, [])
    assert "nothing was replayed, as the store cannot be read: " in without_store[2][0]
    assert (code, [row["id"] for row in rows]) == (1, [one["id"] for one in entries if one["id"] != kept])
    assert errors == [
        f"leveret: {kept} stays parked: the store has no subscription {gone}; check LEVERET_HOME and "
        "[store] url, publish its event again for others, or purge it"
    ]
    assert [row["id"] for row in await daemon.listing("parked", "list")] == [kept]
