"""The broker goes, differs and forgets; the daemon comes back by itself and loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from aio_pika import Message
from aio_pika.abc import AbstractIncomingMessage

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import ctl
from tests.support.processes.children import fetch
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon, running
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import PATIENCE_S, until
from tests.support.system.wire import behind_a_wire

RUNG = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "leveret.due",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
MANY = {**QUICK, "max_attempts": 1_000}  #: more than fit into the longest wait of a test
SLACK_S = 5.0  #: additional time on a busy machine


# the broker goes


async def test_stop_app_and_start_app(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 59, 67: ``stop_app`` under load, ``start_app``: reconnected, nothing lost, old tags never used.

    A delivery in flight comes again with the same id; its ack on the dead channel is counted, not sent. It
    stays in flight until the broker has gone, however long that takes.
    """
    flaky, slow = "/flaky/app?share=0.3", "/hold/app?n=11&status=200"
    async with running(tmp_path, node_url) as daemon:
        await daemon.apply(
            to(receiver, flaky, "app", retry=dict(MANY), breaker=dict(BREAKER_OFF)),
            to(receiver, slow, "slow", timeout_s=30),
        )
        async with EventPublisher(node_url) as publisher:
            ids = await publisher.publish_many("app", 100)
            late = await publisher.publish_many("slow", 10)
        await until(lambda: len(requests_of(receiver, slow)) == 10, "ten in flight")

        await ctl(node, "stop_app")
        await until(daemon.unready, "/readyz is red")
        await daemon.logged("broker.lost")
        await asyncio.to_thread(fetch, receiver.url(slow))  # the eleventh: now all are answered
        await until(lambda: daemon.metric("leveret_stale_settles_total") >= 1, "an ack met a dead channel")
        await ctl(node, "start_app")

        await all_delivered(receiver, flaky, ids)
        found = await all_delivered(receiver, slow, late)
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert max(found.values()) <= 2
        assert daemon.count("delivery.parked") == 0
        assert "unknown delivery tag" not in daemon.log.read_text()  # a window.closed, if any


async def test_broker_killed_and_started(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """S1-12, fault 59: SIGKILL of the broker under load and a restart: reconnected, nothing lost."""
    flaky = "/flaky/kill?share=0.5"
    async with running(tmp_path, node_url) as daemon:
        await daemon.apply(to(receiver, flaky, "kill", retry=dict(MANY), breaker=dict(BREAKER_OFF)))
        async with EventPublisher(node_url) as publisher:
            ids = await publisher.publish_many("kill", 150)
        await receiver.arrived(50)

        await asyncio.to_thread(node.kill)
        await daemon.logged("broker.lost")
        await asyncio.to_thread(node.start, bound=True)

        await all_delivered(receiver, flaky, ids)
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert daemon.count("delivery.parked") == 0


async def test_broker_killed_while_publishes_wait(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 59, 65: publishes written or still to be written when the broker dies are made again."""
    entry = to(receiver, "/slow/waits?s=1&status=503", "waits", concurrency=60, retry=dict(MANY))
    entry |= {"breaker": dict(BREAKER_OFF)}
    body = b'"' + b"x" * 150_000 + b'"'  # more than the socket takes, so that some are never written
    async with running(tmp_path, node_url) as daemon:
        await daemon.apply(entry)
        async with EventPublisher(node_url) as publisher:
            ids = [await publisher.publish("waits", body=body) for _ in range(60)]
        await receiver.arrived(60)
        os.kill(node.start().pid, signal.SIGSTOP)
        await until(lambda: daemon.metric("leveret_requests_in_flight") == 0, "all have failed")
        await daemon.apply(entry | {"url": receiver.url("/ok/waits")})

        await asyncio.to_thread(node.kill)
        await asyncio.to_thread(node.start, bound=True)

        found = await all_delivered(receiver, "/ok/waits", ids)
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert found.keys() == set(ids)
        assert daemon.count("delivery.parked") == 0


async def test_cut_without_fin(node_url: str, tmp_path: Path, receiver: Receiver) -> None:
    """Faults 60, 67: a wire that goes dead is noticed by heartbeats, and left for a new connection.

    Bound: (heartbeat + 1 s) x 1.3, looked at every half heartbeat, which is two heartbeats at the default 10.
    """
    heartbeat_s = 2
    settings = {"LEVERET_AMQP__HEARTBEAT_S": str(heartbeat_s)}
    async with behind_a_wire(tmp_path, node_url, settings) as (daemon, wire):
        await daemon.apply(to(receiver, "/ok/cut", "cut"))
        async with EventPublisher(node_url) as publisher:
            first = await publisher.publish_many("cut", 20)
            await all_delivered(receiver, "/ok/cut", first)
            made = wire.connections
            began = time.monotonic()

            wire.cut()
            second = await publisher.publish_many("cut", 20)

            await daemon.logged("broker.lost", connection="consume")
            assert time.monotonic() - began <= (heartbeat_s + 1) * 1.3 + heartbeat_s / 2 + SLACK_S
            found = await all_delivered(receiver, "/ok/cut", [*first, *second])
        assert wire.connections >= made + 2
        assert {found[event_id] for event_id in second} == {1}
        await until(lambda: daemon.unready() == "", "/readyz is green")


# the broker differs or forgets


async def test_a_queue_with_other_arguments(node_url: str, tmp_path: Path) -> None:
    """Fault 61: it refuses to start, exits 1 and names queue and argument, once; it does not loop."""
    async with running(tmp_path, node_url, name="before"):
        pass
    async with EventPublisher(node_url) as publisher:
        await publisher.channel.queue_delete("leveret.wait.200")
        await publisher.channel.declare_queue(
            "leveret.wait.200", durable=True, arguments=RUNG | {"x-message-ttl": 201}
        )
    daemon = Daemon(tmp_path, node_url)

    daemon.spawn()

    try:
        assert await daemon.wait_exit(PATIENCE_S) == 1
        [line] = daemon.lines("topology.mismatch")
        assert "leveret.wait.200" in str(line["detail"])
        assert "x-message-ttl" in str(line["detail"])
        assert daemon.count("broker.connected", connection="consume") == 1
    finally:
        await daemon.__aexit__()


@pytest.mark.parametrize("queue", ["leveret.lane.00", "leveret.due.00", "leveret.replay"])
async def test_a_queue_deleted_while_consuming(
    node_url: str, tmp_path: Path, receiver: Receiver, queue: str
) -> None:
    """Fault 62: seen, declared again, consumed again without a restart; /readyz is red meanwhile."""
    target = "/retry-after/gone?s=0&times=1"
    async with running(tmp_path, node_url) as daemon, EventPublisher(node_url) as publisher:
        await daemon.apply(
            *(to(receiver, f"{target}&n={n}", f"t{n}", breaker=dict(BREAKER_OFF)) for n in range(4))
        )
        red = asyncio.create_task(until(lambda: "not consuming" in daemon.unready(), "/readyz is red"))

        await publisher.channel.queue_delete(queue)

        await red
        await daemon.logged("window.cancelled")
        await until(lambda: daemon.unready() == "", "/readyz is green")
        for n in range(4):  # tenants of both lanes, events of both due queues
            ids = await publisher.publish_many(f"t{n}", 5)
            found = await all_delivered(receiver, f"{target}&n={n}", ids)
            assert set(found.values()) == {1}


@pytest.mark.parametrize("how", ["unbound", "deleted"])
async def test_a_rung_is_gone(node_url: str, tmp_path: Path, receiver: Receiver, how: str) -> None:
    """Fault 64: a retry that finds no rung comes back, its source is not acked; repaired by itself."""
    target = "/retry-after/rung?s=0&times=1"
    rung = "leveret.wait.50"  # the one below the policy's wait
    async with running(tmp_path, node_url) as daemon, EventPublisher(node_url) as publisher:
        await daemon.apply(to(receiver, target, "rung", breaker=dict(BREAKER_OFF)))
        queue = await publisher.channel.get_queue(rung, ensure=False)
        if how == "deleted":
            await publisher.channel.queue_delete(rung)
        else:
            await queue.unbind("leveret.wait", "50.#")

        ids = await publisher.publish_many("rung", 5)

        await daemon.logged("publish.failed", error="unroutable")
        found = await all_delivered(receiver, target, ids)
        assert set(found.values()) == {1}
        assert daemon.metric("leveret_publish_failures_total", error="unroutable") >= 1


async def test_parked_and_overflow_while_parked_is_full(
    node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Fault 64: an entry that a full parked queue refuses is in overflow, and is parked once there is room.

    No source waits for it: the lanes go on, and expired entries are archived (fault 98). A stop gives back
    entries that wait for room (fault 58).
    """
    settings = {"LEVERET_TOPOLOGY__PARKED_MAX_LENGTH": "3"}
    async with running(tmp_path, node_url, settings) as daemon, EventPublisher(node_url) as publisher:
        await daemon.apply(to(receiver, "/status/400/full", "full"), to(receiver, "/ok/full", "full"))

        ids = await publisher.publish_many("full", 3)
        while not daemon.count("publish.failed", error="refused"):  # the limit acts a moment late
            ids += await publisher.publish_many("full", 4)
            await all_delivered(receiver, "/ok/full", ids)
            count = len(ids)
            holds = partial(lambda count: daemon.count("delivery.parked") == count, count)
            await until(holds, "settled")
        expired = await publisher.channel.get_exchange("leveret.expired", ensure=False)
        for _ in range(3):
            await expired.publish(Message(b"{}", delivery_mode=2), "")
        await until(lambda: daemon.count("parked.expired") == 3, "archived while parked is full")
        assert await daemon.stop() == 0
        [drained] = daemon.lines("drain.ended")
        assert drained["given_back"] != 0
        await daemon.start()
        seen: list[str] = []
        queue = await publisher.channel.get_queue("leveret.parked", ensure=False)

        async def take(entry: AbstractIncomingMessage) -> None:
            await entry.ack()
            seen.append(str(entry.headers["leveret-event"]))

        await queue.consume(take)
        await until(lambda: len(seen) >= len(ids), "all parked")
        assert sorted(seen) == sorted(ids)
