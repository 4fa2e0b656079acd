"""Measure the effect of every attack on the innocent tenant, and how long the event loop stopped meanwhile.

One daemon for each set of settings; per attack a leg without it, then a leg with it. The longest stop is the
daemon's own gauge ``leveret_loop_lag_seconds``; its values in the legs without an attack are noted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.error import HTTPError

from bench.broker import Broker
from bench.fairness.field import quantile
from bench.hostile import forgery_attacks, handle_attacks, loop_attacks
from bench.hostile.attacks import Attack, Stage
from bench.hostile.hosts import Servers
from bench.hostile.innocent import TENANT, Innocent
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import Daemon

ATTACKS: Sequence[Attack] = (
    *loop_attacks.ATTACKS,
    *handle_attacks.ATTACKS,
    *handle_attacks.MEMORY,
    *forgery_attacks.ATTACKS,
)
"""Every attack of items 1 to 3; other modules of this package add their lists here."""

QUIET_S = 6.0
LEAD_S = 1.0  #: the innocent tenant publishes alone for so long
READY_S = 60.0  #: readiness has to be green again this long after an attack
WATCH_S = 1.0
NICE = -15  #: of the daemon's main thread
STOP_METRIC = "leveret_loop_lag_seconds"
STOP_KEPT_S = 60.0  #: for so long the gauge remembers a stop

GOALS = (
    Goal(name="innocent_p99_ratio", text="≤ 3", unit="ratio", n=8),
    Goal(name="loop_block_ms", text="≤ 50", unit="ms", n=8),
    Goal(name="innocent_lost", text="0", unit="events", n=1_000),
    Goal(name="innocent_doubled", text="0", unit="events", n=1_000),
    Goal(name="innocent_parked", text="0", unit="events", n=1_000),
)


@dataclass(slots=True)
class Run:
    """The measurements so far."""

    quiet_s: list[float] = field(default_factory=list)  #: waits of all legs without an attack
    p99_ms: dict[str, float] = field(default_factory=dict)  #: of item 1, by attack
    stop_ms: dict[str, float] = field(default_factory=dict)  #: of item 1, by attack
    unready: list[str] = field(default_factory=list)  #: attacks after which readiness did not return


class Watch:
    """Samples the gauge of the longest stop while a leg runs."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.longest_ms = 0.0

    async def run(self) -> None:
        """Sample until cancelled; a daemon that does not answer has none."""
        while True:
            await asyncio.sleep(WATCH_S)
            await self.look()

    async def look(self) -> None:
        """Sample once."""
        with suppress(OSError, ValueError):
            self.longest_ms = max(self.longest_ms, await asyncio.to_thread(stop_ms, self._daemon))


def stop_ms(daemon: Daemon) -> float:
    """Return the value of the gauge.

    Raises:
        OSError: the daemon did not answer.
        ValueError: it has no such gauge.
    """
    text = fetch(f"http://{daemon.listen}/metrics", timeout_s=5).decode()
    for line in text.splitlines():
        if line.startswith(STOP_METRIC):
            return round(float(line.split()[-1]) * 1000, 1)
    raise ValueError(f"the daemon has no {STOP_METRIC}")


async def attack_once(stage: Stage, attack: Attack, run: Run) -> None:
    """Make one attack while the innocent tenant publishes, after a leg without it."""
    await stage.daemon.subscribe([stage.innocent.entry(), *attack.subscriptions(stage)])
    await attack.prepare(stage)
    quiet = await stage.innocent.leg(f"quiet-{attack.name}", max(2.0, QUIET_S * stage.bench.scale))
    run.quiet_s += [*quiet.waits_s, *(float("inf") for _ in range(quiet.missing))]
    watch = Watch(stage.daemon)
    watching = asyncio.ensure_future(watch.run())
    leg = asyncio.ensure_future(stage.innocent.leg(attack.name, max(4.0, attack.seconds * stage.bench.scale)))
    await asyncio.sleep(LEAD_S)
    await attack.strike(stage)
    felt = await leg
    if not await asyncio.to_thread(_is_ready_again, stage.daemon):
        run.unready.append(f"{attack.name}: {await asyncio.to_thread(_readiness, stage.daemon)}")
    watching.cancel()
    await watch.look()
    if attack.item == 1:
        run.p99_ms[attack.name], run.stop_ms[attack.name] = felt.p99_ms, watch.longest_ms
    stage.bench.say(
        f"{attack.name}: p99 {quiet.p99_ms} ms without, {felt.p99_ms} ms with; longest stop "
        f"{watch.longest_ms} ms; missing {felt.missing}"
    )


def prefer(daemon: Daemon) -> None:
    """Let the daemon's loop run before the programs of the stage, which the gauge would count as its stops.

    Without the right to it the figure holds on a machine with a processor to spare.
    """
    if daemon.process is not None:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, daemon.process.pid, NICE)


def _is_ready_again(daemon: Daemon) -> bool:
    return asyncio.run(wait_until(daemon.ready, READY_S))


def _readiness(daemon: Daemon) -> str:
    """Return the body of ``/readyz``, which gives the reason."""
    try:
        return fetch(f"http://{daemon.listen}/readyz", timeout_s=5).decode()
    except HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)


async def on_one_daemon(
    bench: Bench, broker: Broker, innocent: Innocent, attacks: Sequence[Attack], run: Run
) -> None:
    """Make *attacks*, which all want the same settings, on one daemon."""
    settings = attacks[0].settings
    async with Servers(bench.folder) as servers:
        own = {"LEVERET_SENDING__DNS_SERVERS": json.dumps([servers.name_server]), **settings}
        handles = attacks[0].handles  # the store stays the same: the broker's messages were made with it
        async with Daemon(bench.folder, broker.url, own, handles=handles) as daemon:
            await daemon.subscribe([innocent.entry()])
            await daemon.start()
            prefer(daemon)
            stage = Stage(bench, broker, daemon, innocent, servers.name_server, servers.answers)
            await asyncio.sleep(STOP_KEPT_S)  # the start itself is no attack
            for attack in attacks:
                await attack_once(stage, attack, run)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Make every attack, grouped by the settings that it wants."""
    run = Run()

    def wanted(attack: Attack) -> str:
        return json.dumps([dict(attack.settings), attack.handles], sort_keys=True)

    groups = itertools.groupby(sorted(ATTACKS, key=wanted), wanted)
    async with Broker(bench) as broker, Sink(bench.folder, {TENANT: "/ok/innocent"}) as sink:
        innocent = Innocent(broker.url, sink)
        for _, attacks in groups:
            await on_one_daemon(bench, broker, innocent, [*attacks], run)
        account = await innocent.account(Daemon(bench.folder, broker.url, name="reader"))
    alone_ms = round(quantile(run.quiet_s, 0.99) * 1000, 1)
    bench.note("innocent_p99_ms_alone", alone_ms)
    bench.note("innocent_p99_ms", run.p99_ms)
    bench.note("loop_stop_ms", run.stop_ms)
    bench.note("not_ready_again", run.unready)
    worst = max(run.p99_ms.values())
    kinds, fine = len(run.p99_ms), not run.unready
    return [
        Measured(name="innocent_p99_ratio", value=round(worst / alone_ms, 2), n=kinds, valid=fine),
        Measured(name="loop_block_ms", value=max(run.stop_ms.values()), n=len(run.stop_ms), valid=fine),
        Measured(name="innocent_lost", value=account.lost, n=account.published),
        Measured(name="innocent_doubled", value=account.doubled, n=account.published),
        Measured(name="innocent_parked", value=account.parked, n=account.published),
    ]


PROOF = Proof("attacks", GOALS, prove)
