"""A rung that takes messages and gives none back: how long until series, alert and status show it.

The rung's dead-letter process is suspended, as if it waited for a node that is away: publishes are confirmed,
and the rung's messages do not come back. (The broker replaces a process that ended.) The alert counts as
raised when its series has been above 0 for the time that its rule waits; Prometheus itself is not started.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

import yaml

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.children import fetch
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription
from tests.support.repository.grafana_files import ALERTS

RUNGS_S = (2.0, 4.0, 8.0)
SERIES = "leveret_queue_overdue_messages"
SLACK_S = 90.0  #: of the goal, beyond the TTL
GIVE_UP_S = 150.0
WAIT = 1.2  #: wait after a failure, in TTLs of the rung: a wait has begun when its rung is chosen
LOOK_S = 1.0
MINUTES = {"s": 1, "m": 60, "h": 3600}
SETTINGS = {
    "LEVERET_TOPOLOGY__LANES": "4",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0, 4.0, 8.0]",
}

GOALS = (Goal(name="missing_seen_s", text="≤ TTL + 90", unit="s", n=len(RUNGS_S)),)


def rung_queue(ttl_s: float) -> str:
    """Return the name of the rung."""
    return f"leveret.wait.{round(ttl_s * 1000)}"


def suspending(queue: str) -> str:
    """Return the Erlang expression that suspends the dead-letter process of *queue* for good."""
    return (
        "[sys:suspend(P) || {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), "
        f'element(4, element(2, sys:get_state(P))) =:= <<"{queue}">>].'
    )


def alert_waits_s() -> float:
    """Return how long the alert on the series waits, in seconds.

    Raises:
        LookupError: no alert uses the series.
    """
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        if SERIES in rule.get("expr", ""):
            text = str(rule.get("for", "0s"))
            return float(text[:-1]) * MINUTES[text[-1]]
    raise LookupError(f"no alert uses {SERIES}")


def shown_in_metrics(text: str, queue: str) -> bool:
    """Return whether the scrape shows messages of *queue* overdue."""
    found = re.search(rf'^{SERIES}{{[^}}]*queue="{re.escape(queue)}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return found is not None and float(found[1]) > 0


async def publish_until(url: str, stop: asyncio.Event) -> list[EventSpec]:
    """Publish 20 events a second until *stop*."""
    every: list[EventSpec] = []
    while not stop.is_set():
        part = make_events(f"mis_{len(every):06d}", 20)
        every += part
        await publish(url, part)
        await asyncio.sleep(1)
    return every


async def seen_s(bench: Bench, broker: Broker, daemon: Daemon, ttl_s: float) -> float:
    """Suspend the rung's process; return the seconds until series, alert and status show it."""
    queue = rung_queue(ttl_s)
    if "ok" not in await broker.evaluate(suspending(queue)):
        raise LookupError(f"{queue} has no dead-letter process")
    began = time.monotonic()
    shown: dict[str, float] = {}
    while len(shown) < 2 and time.monotonic() - began < GIVE_UP_S:
        await asyncio.sleep(LOOK_S)
        text = (await asyncio.to_thread(fetch, f"http://{daemon.listen}/metrics")).decode()
        if "series" not in shown and shown_in_metrics(text, queue):
            shown["series"] = time.monotonic() - began
        if "status" not in shown and "series" in shown and queue in await daemon.cli("status"):
            shown["status"] = time.monotonic() - began
    bench.note(f"missing_{queue}", {name: round(at, 1) for name, at in shown.items()})
    if len(shown) < 2:
        return GIVE_UP_S * 2
    return max(shown["series"] + alert_waits_s(), shown["status"])


async def watch_one(bench: Bench, ttl_s: float) -> float:
    """Start everything anew, as a suspended rung is of no more use; return :func:`seen_s`."""
    folder = bench.folder / f"ttl-{ttl_s:g}"
    folder.mkdir()
    async with (
        Broker(bench) as broker,
        Sink(folder, {"fails": "/status/503/fails"}) as sink,
        Daemon(folder, broker.url, SETTINGS) as daemon,
    ):
        policy = {"max_attempts": 100, "schedule_s": [WAIT * ttl_s], "jitter": 0}
        one = subscription("fails", sink.url("fails"), retry=policy, breaker=NO_BREAKER, concurrency=64)
        await daemon.subscribe([one])
        await daemon.start()
        stop = asyncio.Event()
        load = asyncio.create_task(publish_until(broker.url, stop))
        await asyncio.sleep(3 * ttl_s)
        try:
            return await seen_s(bench, broker, daemon, ttl_s)
        finally:
            stop.set()
            await load


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure each rung; report the one that comes closest to its goal, or exceeds it most."""
    found = [(await watch_one(bench, ttl_s), ttl_s) for ttl_s in RUNGS_S]
    seen, ttl_s = max(found, key=lambda row: row[0] - row[1])
    worst = Measured(name="missing_seen_s", value=round(seen, 1), n=len(found), at_most=ttl_s + SLACK_S)
    return [worst]


PROOF = Proof("missing", GOALS, prove)
