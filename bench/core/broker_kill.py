"""SIGKILL of the broker, three times under load and down for 10 s: nothing is lost, without help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.broker import Broker
from bench.core.kills import successes
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

KILLS = 3
DOWN_S = 10.0
PER_SECOND = 100
LEAD_S = 6.0  #: load before each kill
END_S = 180.0
TARGETS = {"healthy": "/ok/healthy", "flaky": "/flaky/flaky?share=0.3"}

GOALS = (Goal(name="kill_broker_lost", text="0", unit="pairs", n=KILLS),)


async def publish_until(url: str, stop: asyncio.Event) -> list[EventSpec]:
    """Publish :data:`PER_SECOND` events a second, again and again until confirmed; return them all."""
    done: list[EventSpec] = []
    number = 0
    while not stop.is_set():
        began = time.monotonic()
        events = make_events(f"bkr_{number:04d}", PER_SECOND)
        await publish(url, events)
        done += events
        number += 1
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
    return done


async def kill_under_load(bench: Bench, broker: Broker, daemon: Daemon) -> int:
    """Kill the broker and bring it back, :data:`KILLS` times; return how often it was under load."""
    kills = 0
    for _ in range(bench.count(KILLS)):
        await asyncio.sleep(LEAD_S)
        await broker.kill()
        bench.say("the broker is dead")
        await asyncio.sleep(DOWN_S)
        await broker.start()
        bench.say("the broker is back")
        assert daemon.process is not None
        kills += daemon.process.poll() is None
        await asyncio.sleep(LEAD_S)
    return kills


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish all the time, kill the broker, and count what never arrived."""
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        policy = retry(max_attempts=12, max_s=4)
        await daemon.subscribe(
            [subscription(name, sink.url(name), retry=policy, breaker=NO_BREAKER) for name in TARGETS]
        )
        await daemon.start()
        stop = asyncio.Event()
        publisher = asyncio.create_task(publish_until(broker.url, stop))
        try:
            kills = await kill_under_load(bench, broker, daemon)
        finally:
            stop.set()
            events = await asyncio.wait_for(publisher, 120)
        bench.note(
            "kill_broker_queues_empty",
            await wait_empty(broker.management, keep=["leveret.parked"], timeout_s=END_S),
        )
        taken = successes(sink.read())
    lost = [(event.id, name) for event in events for name in TARGETS if (event.id, name) not in taken]
    bench.note("kill_broker_pairs", len(events) * len(TARGETS))
    bench.note("kill_broker_duplicates", sum(len(group) - 1 for group in taken.values()))
    bench.note("kill_broker_lost_examples", lost[:10])
    return [Measured(name="kill_broker_lost", value=len(lost), n=kills)]


PROOF = Proof("broker_kill", GOALS, prove)
