"""The log of a life without faults: URLs at the start, traces between, no warning to the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.processes.children import fetch, free_port
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
EVENTS = 300
QUIET = {"debug", "info"}
EXPECTED = {"egress.open", "queue.stuck"}
"""Every daemon of the tests may send to this machine, which it warns of at its start. On a busy machine the
broker may confirm late, which is a fault of the surroundings and not of the stop."""


def loud(daemon: Daemon) -> list[dict[str, object]]:
    """Return the lines of level warning or above, except those at the start."""
    return [line for line in daemon.lines() if line["level"] not in QUIET and line["event"] not in EXPECTED]


async def test_a_clean_stop_logs_no_warning(vhost: str, tmp_path: Path, receiver: Receiver) -> None:
    """SIGTERM with requests in flight, events behind them, and the API in use: exit code 0, no warning."""
    target = "/slow/quiet?s=0.3"
    settings = {
        "LEVERET_SENDING__CONCURRENCY": "20",
        "LEVERET_API__LISTEN": f"127.0.0.1:{free_port()}",
    }
    daemon = Daemon(tmp_path, vhost, settings)
    await daemon.apply(
        to(receiver, target, "quiet", concurrency=20), to(receiver, "/ok/quiet", "quiet", concurrency=20)
    )
    async with daemon, EventPublisher(vhost) as publisher:
        await daemon.start()
        ready = await daemon.logged("daemon.ready")
        for url in (ready["health"], ready["metrics"], f"{ready['api']}/login"):
            assert await asyncio.to_thread(fetch, str(url))
        await publisher.publish_many("quiet", EVENTS)
        await until(lambda: len(requests_of(receiver, target)) >= 40, "deliveries are under way")

        assert await daemon.stop() == 0

        began = next(daemon.lines("drain.began"))
        assert began["running"], "nothing was in flight"
        assert len(requests_of(receiver, target)) < EVENTS, "nothing was left to be given back"
        assert loud(daemon) == []


async def test_a_stop_beside_another_worker_logs_no_warning(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """A rolling restart: neither the worker that stops nor the one that goes on has anything to warn of."""
    target = "/slow/rolling?s=0.1"
    old, new = Daemon(tmp_path, vhost, name="old"), Daemon(tmp_path, vhost, name="new")
    new.env["LEVERET_HOME"] = old.env["LEVERET_HOME"]
    await old.apply(to(receiver, target, "rolling", concurrency=20))
    async with old, new, EventPublisher(vhost) as publisher:
        await old.start()
        ids = await publisher.publish_many("rolling", EVENTS)
        await receiver.arrived(10)
        await new.start()

        assert await old.stop() == 0
        await all_delivered(receiver, target, ids)
        assert await new.stop() == 0

        assert loud(old) == []
        assert loud(new) == []


async def test_lines_about_a_delivery_have_the_trace_of_its_event(
    vhost: str, tmp_path: Path, receiver: Receiver
) -> None:
    """From its first attempt over its retries to its end, in the log of the worker that has it."""
    daemon = Daemon(tmp_path, vhost)
    await daemon.apply(to(receiver, "/status/503", "traced", retry={"max_attempts": 2, "base_s": 0.1}))
    async with daemon, EventPublisher(vhost) as publisher:
        await daemon.start()
        await publisher.publish("traced", headers={"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"})
        await daemon.logged("delivery.parked")
        lines = [*daemon.lines("delivery.attempted"), *daemon.lines("delivery.parked")]
        assert await daemon.stop() == 0

    assert len(lines) == 3
    for line in lines:
        assert line["trace_id"] == TRACE_ID
        assert str(line["subscription"]).startswith("traced/")
        assert list(line)[:5] == ["timestamp", "level", "event", "tenant", "subscription"]
