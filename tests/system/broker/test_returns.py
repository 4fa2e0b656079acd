"""Fault 95 on a real broker: a rung whose dead-letter process hangs is seen, avoided, and used again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import ctl
from tests.support.servers.receiver import Receiver
from tests.support.system.command import command
from tests.support.system.daemon import running
from tests.support.system.endpoints import BREAKER_OFF, all_delivered, to
from tests.support.system.publisher import EventPublisher

RUNG = "leveret.wait.50"  #: the one below the wait of 0.1 s, which has begun when it is chosen
TTL_S = 0.05


async def dead_letters(node: PrivateBroker, vhost: str, queue: str, step: str) -> None:
    """Let the broker's process that moves the dead letters of *queue* take a step of ``sys``."""
    mine = f'element(2, sys:get_state(P)) =:= {{resource, <<"{vhost}">>, queue, <<"{queue}">>}}'
    children = "{_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup)"
    done = await ctl(node, "eval", f"[sys:{step}(P) || {children}, {mine}].")
    assert "ok" in done, f"no dead-letter process of {queue}: {done}"


async def test_a_rung_that_keeps_its_messages(
    node: PrivateBroker, node_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    """`missing_seen_s`: two workers share the rung; series, log, status and /readyz show it in time.

    Deliveries of later events go around it. Once it moves again, all are delivered and both workers use it.
    """
    target = "/retry-after/kept?s=0&times=1"
    vhost = node_url.rpartition("/")[2]
    async with (
        running(tmp_path, node_url, name="a") as first,
        running(tmp_path, node_url, {"LEVERET_HOME": str(first.home)}, name="b") as second,
        EventPublisher(node_url) as publisher,
    ):
        await first.apply(to(receiver, target, "kept", breaker=dict(BREAKER_OFF)))
        await second.knows(1)
        ids = await publisher.publish_many("kept", 40)
        await all_delivered(receiver, target, ids)

        await dead_letters(node, vhost, RUNG, "suspend")
        began = time.monotonic()
        while not all(d.metric("leveret_queue_overdue_messages", queue=RUNG) for d in (first, second)):
            assert time.monotonic() - began <= TTL_S + 90
            ids += await publisher.publish_many("kept", 10)
            await asyncio.sleep(1.0)  # steady traffic

        for daemon in (first, second):
            await daemon.logged("queue.overdue", queue=RUNG)
            assert daemon.metric("leveret_queue_overdue_messages", queue="leveret.wait.200") == 0
            assert daemon.unready() == ""
            assert "do not give back" in daemon.health()
            assert f"overdue        {RUNG}" in (await command(daemon, "status")).stdout
        around = await publisher.publish_many("kept", 10)
        await all_delivered(receiver, target, around, timeout_s=20)

        await dead_letters(node, vhost, RUNG, "resume")
        found = await all_delivered(receiver, target, ids)
        for daemon in (first, second):
            await daemon.logged("queue.returned", queue=RUNG)
            assert "give back" not in daemon.health()
        assert set(found.values()) == {1}
