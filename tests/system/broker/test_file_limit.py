"""A node that may open 1,024 files, as by default, and has too many quorum queues: it is reported early."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import pytest

from consumer.edges.private_broker import PrivateBroker
from tests.support.broker.vhosts import end
from tests.support.system.command import command
from tests.support.system.daemon import Daemon, running
from tests.support.system.waiting import until
from topology.plan import TopologySpec, build_plan

LIMIT = 1024
PLANNED = len(build_plan(TopologySpec()).queues)  #: with the default settings
FULL = {"LEVERET_AMQP__CONNECT_TIMEOUT_S": "2", "LEVERET_LOG__FORMAT": "json"}


@dataclass
class Node:
    """A private node that may open few files."""

    folder: Path
    daemon: Daemon
    url: str
    version: str
    made: int = 0

    async def fill(self, total: int) -> None:
        """Declare quorum queues until there are *total* with the plan's."""
        async with await aio_pika.connect(self.url) as connection:
            channel = await connection.channel()
            for number in range(self.made, total - PLANNED):
                await channel.declare_queue(f"x{number}", durable=True, arguments={"x-queue-type": "quorum"})
        self.made = total - PLANNED


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node of its own, started with the limit that a system without settings has."""
    daemon = Daemon(tmp_path, "", name="limited")
    daemon.env = {k: v for k, v in daemon.env.items() if not k.startswith("LEVERET_TOPOLOGY")} | FULL
    del daemon.env["LEVERET_AMQP_URL"]
    start = f"ulimit -n {LIMIT}; exec {sys.executable} -m consumer broker start --json --show-secrets"
    done = subprocess.run(  # noqa: ASYNC221 (nothing else runs)
        ["/bin/sh", "-c", start], env=daemon.env, capture_output=True, text=True, timeout=120, check=True
    )
    started = json.loads(done.stdout)
    try:
        yield Node(tmp_path, daemon, started["amqp_url"], started["version"])
    finally:
        await daemon.__aexit__()
        end(PrivateBroker(daemon.home))


async def test_the_daemon_makes_the_checks_of_topology_check(node: Node) -> None:
    """A warning, a metric and a note in time; later an error that names the limit."""
    if not node.version.startswith("3."):
        pytest.skip("only RabbitMQ 3 reserves file handles for quorum queues")
    daemon = node.daemon
    await daemon.start()
    await until(lambda: daemon.count("topology.finding", severity="error") == 0, "nothing is wrong")
    await daemon.stop()
    await node.fill(307)

    await daemon.start()
    said = await daemon.logged("topology.finding", severity="error")
    assert (
        f"may open {LIMIT} files, and 307 quorum queues reserve 921; raise its open-file limit"
        in said["detail"]
    )
    assert daemon.metric("leveret_topology_findings", severity="error") == 1
    assert "errors of `leveret topology check`: 1" in daemon.health()
    assert await daemon.stop() == 0
    await node.fill(337)

    daemon.spawn()
    unreachable = await daemon.logged("broker.unreachable")
    assert "TimeoutError; node" in unreachable["detail"]
    assert "337 quorum queues reserve 1011; raise its open-file limit" in unreachable["detail"]
    assert "is it up" not in unreachable["detail"]
    check = await command(daemon, "topology", "check")
    assert check.returncode == 1
    assert "337 quorum queues reserve 1011" in check.stderr


async def test_without_the_management_api_it_names_the_unchecked_parts(vhost: str, tmp_path: Path) -> None:
    """Within its rights; nothing is an error then, and the daemon is ready."""
    async with running(tmp_path, vhost) as daemon:
        note = await daemon.logged("topology.finding", severity="note")

        assert "file limit: were not looked at; [amqp] management_url is not set" in note["detail"]
        assert daemon.metric("leveret_topology_findings", severity="error") == 0
        assert daemon.unready() == ""
