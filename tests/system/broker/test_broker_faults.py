"""The broker goes, lies, blocks and forgets; the daemon comes back by itself and loses nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from aio_pika.abc import AbstractIncomingMessage
from yarl import URL

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import add_vhost, end, managed, remove_vhost
from tests.support.processes.children import fetch
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import (
    BREAKER_OFF,
    LOOK_S,
    PATIENCE_S,
    QUICK,
    Daemon,
    EventPublisher,
    Wire,
    all_delivered,
    deliveries,
    requests_of,
    running,
    to,
    until,
)

RUNG = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "leveret.due",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
MANY = {**QUICK, "max_attempts": 60}
SLACK_S = 5.0  #: what a busy machine may add to a bound


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBroker]:
    """A node that the tests of this module may stop, kill and stall."""
    broker = PrivateBroker(tmp_path_factory.mktemp("faulty-broker"))
    try:
        broker.start(bound=True)
        yield broker
    finally:
        end(broker)


@pytest.fixture
def node_url(node: PrivateBroker) -> Iterator[str]:
    """The AMQP URL of an empty vhost on that node, which runs."""
    endpoint = node.start(bound=True)
    with managed(endpoint) as management:
        name = add_vhost(management, endpoint.user)
    yield f"{endpoint.amqp_url}/{name}"
    with managed(node.start(bound=True)) as management:
        remove_vhost(management, name)


async def ctl(node: PrivateBroker, *arguments: str) -> str:
    """Run ``rabbitmqctl`` off the loop, so that endpoints go on answering."""
    return await asyncio.to_thread(node.ctl, *arguments)


@asynccontextmanager
async def behind_a_wire(
    tmp_path: Path, url: str, settings: dict[str, str]
) -> AsyncIterator[tuple[Daemon, Wire]]:
    """Run a daemon that reaches the broker through a wire which the test holds."""
    address = URL(url)
    async with Wire(str(address.host), int(address.port or 5672)) as wire:
        through = str(address.with_port(wire.port))
        async with running(tmp_path, through, settings) as daemon:
            yield daemon, wire


# the broker goes


async def test_stop_app_and_start_app(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 59, 67: ``stop_app`` under load, ``start_app``: reconnected, nothing lost, old tags never used.

    What was in flight comes again with the same id; its ack on the dead channel is counted, not sent. It is
    in flight until the broker has gone, however long that takes.
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
    """Fault 64: what a full parked queue refuses stands in overflow, and is parked once there is room.

    No source waits for it: the lanes go on. A stop gives back what waits for room (fault 58).
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


# the broker blocks or is silent


async def test_memory_alarm(node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 63: under an alarm no new attempt starts, /readyz says why; afterwards all arrive, each once."""
    dead = to(receiver, "/status/503/alarm", "alarm", retry=dict(MANY), breaker=dict(BREAKER_OFF))
    async with running(tmp_path, node_url) as daemon, EventPublisher(node_url) as publisher:
        await daemon.apply(dead, to(receiver, "/ok/alarm", "fine"))
        before = await publisher.publish_many("fine", 20)
        await all_delivered(receiver, "/ok/alarm", before)
        await publisher.publish_many("alarm", 3)  # their retries make the daemon publish
        await until(lambda: len(receiver.requests) > 30, "retries")
        await ctl(node, "set_vm_memory_high_watermark", "0.00001")
        try:
            await until(lambda: "alarm" in daemon.unready(), "/readyz is red with the reason")
            await until(lambda: daemon.metric("leveret_requests_in_flight") == 0, "nothing in flight")
            standing = len(receiver.requests)
            assert daemon.metric("leveret_pressed") == 1
            with pytest.raises(AssertionError):
                await until(lambda: len(receiver.requests) > standing, "an attempt", 2)
        finally:
            await ctl(node, "set_vm_memory_high_watermark", "0.6")

        behind = await publisher.publish_many("fine", 20)
        found = await all_delivered(receiver, "/ok/alarm", [*before, *behind])
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert set(found.values()) == {1}
        await daemon.apply(dead | {"enabled": False})
        assert len(await daemon.parked(3, reason="disabled")) == 3


CONSUMER_TIMEOUT_S = 3.0  #: of the daemon in the test below; ``give_back_s`` is less than half of it


@pytest.fixture
async def impatient_broker(node: PrivateBroker, node_url: str) -> AsyncIterator[str]:
    """The AMQP URL of a vhost; channels that open now have a short consumer timeout, looked at often.

    Source: rabbitmq-server, rabbit_channel (both are read when a channel opens).
    """
    timeout = f"application:set_env(rabbit, consumer_timeout, {CONSUMER_TIMEOUT_S * 1000:.0f}),"
    before = (
        "application:get_env(rabbit, consumer_timeout), application:get_env(rabbit, channel_tick_interval)"
    )
    said = await ctl(node, "eval", f"{{{before}}}.")
    usual = [int(number) for number in re.findall(r"\d+", said)]
    await ctl(node, "eval", f"{timeout} application:set_env(rabbit, channel_tick_interval, 250).")
    yield node_url
    timeout = f"application:set_env(rabbit, consumer_timeout, {usual[0]}),"
    await ctl(node, "eval", f"{timeout} application:set_env(rabbit, channel_tick_interval, {usual[1]}).")


async def test_an_alarm_longer_than_the_consumer_timeout(
    node: PrivateBroker, impatient_broker: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 61, 63: what is unstarted goes back before half of the consumer timeout, and later comes once.

    What the alarm met unsettled stays in hand and loses its channel: that one alone is opened anew.
    """
    settings = {"LEVERET_WINDOWS__GIVE_BACK_S": "1", "LEVERET_SENDING__CONCURRENCY": "4"}
    settings |= {"LEVERET_WINDOWS__LANE_PREFETCH": "16"}  # 20 a second: under a second in hand
    dead = to(receiver, "/status/503/long", "dead", retry=dict(MANY), breaker=dict(BREAKER_OFF))
    slow = "/slow/long?s=0.2"
    async with running(tmp_path, impatient_broker, settings) as daemon:
        async with EventPublisher(impatient_broker) as publisher:
            await daemon.apply(dead, to(receiver, slow, "slow"))
            await publisher.publish_many("dead", 2)
            await until(lambda: len(requests_of(receiver, "/status/503/long")) > 4, "all are retries now")
            ids = await publisher.publish_many("slow", 60)

            async def publish_on() -> None:
                """Leave something unstarted, however long the alarm takes to come."""
                while True:
                    if len(ids) < len(requests_of(receiver, slow)) + 60:
                        ids.append(await publisher.publish("slow"))
                    await asyncio.sleep(LOOK_S)

            await until(lambda: len(requests_of(receiver, slow)) > 8, "the lane is under way")
            publishing = asyncio.create_task(publish_on())
            await ctl(node, "set_vm_memory_high_watermark", "0.00001")
            try:
                closed = await daemon.logged("window.closed")
                assert "alarm" in daemon.unready() or "not consuming" in daemon.unready()
            finally:
                publishing.cancel()
                await ctl(node, "set_vm_memory_high_watermark", "0.6")

            found = await all_delivered(receiver, slow, ids)
        await until(lambda: daemon.unready() == "", "/readyz is green")
        [given] = daemon.lines("window.given_back")
        assert int(str(given["messages"])) > 0
        assert str(given["timestamp"]) < str(closed["timestamp"])
        assert "timed out" in str(closed["detail"])
        assert {line["source"] for line in daemon.lines("window.closed")} == {"due"}
        assert daemon.count("broker.lost") == 0
        assert set(found.values()) == {1}
        await daemon.apply(dead | {"enabled": False})


async def test_confirms_that_do_not_come(node_url: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 65: after ``confirm_slow_s`` no new attempt starts; when answers flow again all goes on."""
    settings = {"LEVERET_AMQP__CONFIRM_SLOW_S": "0.5", "LEVERET_AMQP__HEARTBEAT_S": "60"}
    target = "/retry-after/confirm?s=0&times=1"
    async with behind_a_wire(tmp_path, node_url, settings) as (daemon, wire):
        await daemon.apply(to(receiver, target, "confirm"), to(receiver, "/slow/confirm?s=0.5", "confirm"))
        async with EventPublisher(node_url) as publisher:
            first = await publisher.publish("confirm")
            await receiver.arrived(2)
            wire.hold_answers()
            await until(lambda: "confirm" in daemon.unready(), "/readyz is red with the reason")
            seen = len(receiver.requests)
            behind = await publisher.publish("confirm")
            with pytest.raises(AssertionError):
                await until(lambda: len(receiver.requests) > seen, "an attempt", 1)

            wire.let_answers_through()

            found = await all_delivered(receiver, target, [first, behind])
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert set(found.values()) == {1}


async def test_a_confirm_lost_for_good(node_url: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 65: after ``confirm_lost_s`` the channel is closed, and what it left is published once more."""
    settings = {
        "LEVERET_AMQP__CONFIRM_SLOW_S": "0.2",
        "LEVERET_AMQP__CONFIRM_LOST_S": "1",
        "LEVERET_AMQP__HEARTBEAT_S": "60",
    }
    target = "/retry-after/lost?s=0&times=1"
    async with behind_a_wire(tmp_path, node_url, settings) as (daemon, wire):
        await daemon.apply(to(receiver, target, "lost"), to(receiver, "/slow/lost?s=0.5", "lost"))
        async with EventPublisher(node_url) as publisher:
            event_id = await publisher.publish("lost")
            await receiver.arrived(2)
            wire.hold_answers()
            await daemon.logged("confirm.lost")
            wire.let_answers_through()

            found = await all_delivered(receiver, target, [event_id])
            behind = await publisher.publish("lost")
            await all_delivered(receiver, target, [event_id, behind])
        await until(lambda: daemon.unready() == "", "/readyz is green")
        assert found[event_id] <= 2
        assert {line["attempt"] for line in daemon.lines("delivery.attempted")} <= {1, 2}


async def test_a_stalled_broker(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """Faults 60, 65: a broker that stands still for longer than two heartbeats is left, and found again."""
    async with running(tmp_path, node_url, {"LEVERET_AMQP__HEARTBEAT_S": "1"}) as daemon:
        await daemon.apply(to(receiver, "/ok/stalled", "stalled"))
        async with EventPublisher(node_url) as publisher:
            ids = await publisher.publish_many("stalled", 10)
        await all_delivered(receiver, "/ok/stalled", ids)
        pid = node.start().pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await daemon.logged("broker.lost")
            await until(daemon.unready, "/readyz is red")
        finally:
            os.kill(pid, signal.SIGCONT)

        await until(lambda: daemon.unready() == "", "/readyz is green")
        async with EventPublisher(node_url) as publisher:
            behind = await publisher.publish_many("stalled", 10)
        await all_delivered(receiver, "/ok/stalled", [*ids, *behind])
        assert set(deliveries(receiver, "/ok/stalled").values()) <= {1, 2}
