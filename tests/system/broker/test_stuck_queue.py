"""Fault 96: one queue has no leader; only deliveries that need it wait, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import ctl
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import running
from tests.support.system.endpoints import BREAKER_OFF, all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

SETTINGS = {"LEVERET_AMQP__CONFIRM_SLOW_S": "3", "LEVERET_AMQP__CONFIRM_LOST_S": "6"}


@asynccontextmanager
async def stopped(node: PrivateBroker, url: str, queue: str) -> AsyncIterator[None]:
    """Stop the only member of a quorum queue, so that it has no leader; start it at the end."""
    resource = f'rabbit_misc:r(<<"{url.rpartition("/")[2]}">>, queue, <<"{queue}">>)'
    found = f"{{ok, Q}} = rabbit_amqqueue:lookup({resource}), P = amqqueue:get_pid(Q), "
    await ctl(node, "eval", f"{found} ra:stop_server(quorum_queues, P).")
    try:
        yield
    finally:
        await ctl(node, "eval", f"{found} ra:restart_server(quorum_queues, P).")


@pytest.mark.parametrize("queue", ["leveret.wait.400", "leveret.parked"])
async def test_one_stuck_queue_stops_only_deliveries_that_need_it(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver, queue: str
) -> None:
    """Fault 96: a rung, or the parked queue: the worker stays ready, and all is delivered or parked."""
    # the waits are longer than the rung, so that it is needed although storing takes some milliseconds
    retry = {"max_attempts": 3, "schedule_s": [0.75, 0.75], "jitter": 0}
    good, flaky = "/ok/good", "/retry-after/flaky?s=0&times=1"
    bad = "/status/400/bad"
    async with running(tmp_path, node_url, SETTINGS) as daemon, EventPublisher(node_url) as publisher:
        await daemon.apply(
            to(receiver, good, "good"),
            to(receiver, flaky, "flaky", retry=retry, breaker=dict(BREAKER_OFF)),
            to(receiver, bad, "bad", retry=retry, breaker=dict(BREAKER_OFF)),
        )
        await all_delivered(receiver, good, await publisher.publish_many("good", 5))

        async with stopped(node, node_url, queue):
            await publisher.publish_many("bad", 60)
            failing = await publisher.publish_many("flaky", 60)
            await until(lambda: len(requests_of(receiver, "/status/400/bad")) >= 60, "all bad ones are sent")
            await daemon.logged("queue.stuck", queue=queue)
            assert daemon.metric("leveret_stuck_queues") == 1
            for _ in range(5):
                ids = await publisher.publish_many("good", 10)
                await asyncio.wait_for(all_delivered(receiver, good, ids), 20)
                assert daemon.unready() == ""
                await asyncio.sleep(0.5)
            assert daemon.metric("leveret_pressed") == 0

        found = await all_delivered(receiver, flaky, failing)
        await daemon.parked(60, reason="permanent")
        await until(lambda: daemon.metric("leveret_stuck_queues") == 0, "the queue is free again")
        assert max(found.values()) == 1
