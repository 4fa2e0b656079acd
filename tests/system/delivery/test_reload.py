"""Subscriptions change while it runs."""

from __future__ import annotations

import asyncio
import signal
import time

import yaml

from consumer.flow.store_sync import GAP_S
from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until

WITHIN_S = 1.0
SLACK_S = 5.0  #: additional time on a busy machine; the proof `change_visible_s` measures without it


async def test_apply_takes_effect_within_a_second(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """``subscriptions apply`` is seen within a second, without signal and restart."""
    began = time.monotonic()
    await shared.apply(to(receiver, "/ok/polled", "polled"), signal_it=False)
    assert time.monotonic() - began < WITHIN_S + SLACK_S

    event_id = await publisher.publish("polled")

    await all_delivered(receiver, "/ok/polled", [event_id])


async def test_the_command_applies_and_generates_a_secret(
    shared: Daemon, publisher: EventPublisher, receiver: Receiver
) -> None:
    """A file goes in by the command line; applied twice it changes nothing."""
    path = shared.home / "file.yaml"
    entry = {"tenant": "filed", "url": receiver.url("/ok/filed"), "events": ["order.*"]}
    path.write_text(yaml.safe_dump({"subscriptions": [entry]}))

    first = await shared.cli("subscriptions", "apply", str(path))
    second = await shared.cli("subscriptions", "apply", str(path))

    assert "whsec_" in first
    assert "whsec_" not in second
    await shared.knows(len(await shared.entries()))
    event_id = await publisher.publish("filed")
    await all_delivered(receiver, "/ok/filed", [event_id])


async def test_sighup_reloads(shared: Daemon, publisher: EventPublisher, receiver: Receiver) -> None:
    """SIGHUP reads the store again and ends nothing."""
    loads = shared.count("subscriptions.loaded")
    assert shared.process is not None

    shared.process.send_signal(signal.SIGHUP)

    await until(lambda: shared.count("subscriptions.loaded") > loads, "reloaded")
    await until(lambda: shared.unready() == "", "/readyz is green")


async def test_many_requests_become_few_loads(shared: Daemon) -> None:
    """Fault 98: 300 times SIGHUP cost a load in 0.2 s at most, and the last one is heard."""
    loads, began = shared.count("subscriptions.loaded"), time.monotonic()
    for _ in range(300):
        shared.reload()
        await asyncio.sleep(0.005)
    await until(lambda: shared.count("subscriptions.loaded") > loads, "reloaded")
    await asyncio.sleep(2 * GAP_S)

    passed_s = time.monotonic() - began
    assert shared.count("subscriptions.loaded") - loads <= passed_s / GAP_S + 2
