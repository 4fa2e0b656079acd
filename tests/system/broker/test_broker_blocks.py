"""The broker blocks, or confirms nothing: the daemon waits, comes back by itself and loses nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import ctl
from tests.support.processes.children import LOOK_S
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import running
from tests.support.system.endpoints import BREAKER_OFF, QUICK, all_delivered, deliveries, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until
from tests.support.system.wire import behind_a_wire

MANY = {**QUICK, "max_attempts": 1_000}  #: more than fit into the longest wait of a test


CONSUMER_TIMEOUT_S = 9.0  #: of the daemon in the test below; ``give_back_s`` is less than half of it


async def test_memory_alarm(node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 63: under an alarm no new attempt starts, /readyz gives the reason; later all come, each once."""
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
    """Faults 61, 63: unstarted messages go back before half of the consumer timeout, and later come once.

    Messages that the alarm met unsettled stay in hand and lose their channel: it alone is opened anew. There
    are such, as more failing deliveries are due than may be in flight.
    """
    settings = {"LEVERET_WINDOWS__GIVE_BACK_S": "1", "LEVERET_SENDING__CONCURRENCY": "4"}
    settings |= {"LEVERET_WINDOWS__LANE_PREFETCH": "16"}  # 20 a second: under a second in hand
    failing, slow = "/slow/dead?s=1&status=503", "/slow/long?s=0.2"
    dead = to(receiver, failing, "dead", retry=dict(MANY), breaker=dict(BREAKER_OFF))
    async with running(tmp_path, impatient_broker, settings) as daemon:
        async with EventPublisher(impatient_broker) as publisher:
            await daemon.apply(dead, to(receiver, slow, "slow"))
            failed = await publisher.publish_many("dead", 12)
            await until(
                lambda: all(len(requests_of(receiver, failing, one)) > 1 for one in failed), "all are retries"
            )
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
    """Fault 65: after ``confirm_lost_s`` the channel is closed, and its publishes are repeated."""
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
    """Faults 60, 65: a broker that stops for longer than two heartbeats is left, and found again."""
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
