"""The daemon works with an unread log, and without standard streams (fault 93)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.processes.children import unread_pipe
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

TARGET = "/ok/log"


async def test_an_unread_log_stops_no_delivery(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """Fault 93: a pipe holds 64 kB; far more is logged, every event is delivered and the end is clean."""
    daemon = Daemon(tmp_path, vhost)
    await daemon.apply(to(receiver, TARGET, "log"))
    daemon.log.unlink()
    with unread_pipe(daemon.log):
        async with daemon, EventPublisher(vhost) as publisher:
            await daemon.start()
            ids = await publisher.publish_many("log", 400)
            found = await all_delivered(receiver, TARGET, ids)

            assert daemon.ready()
            assert await daemon.stop() == 0
    assert set(found.values()) == {1}


async def test_the_daemon_needs_no_standard_stream(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """With all three closed it starts, delivers and ends as ever."""
    daemon = Daemon(tmp_path, vhost)
    await daemon.apply(to(receiver, TARGET, "closed"))
    line = f"exec {sys.executable} -m consumer run <&- >&- 2>&-"
    daemon.process = subprocess.Popen(["sh", "-c", line], env=daemon.env)  # noqa: ASYNC220 - it is only started
    async with daemon, EventPublisher(vhost) as publisher:
        await until(daemon.ready)
        ids = await publisher.publish_many("closed", 5)
        await all_delivered(receiver, TARGET, ids)

        assert await daemon.stop() == 0
