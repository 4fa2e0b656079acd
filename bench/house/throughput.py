"""Deliveries a second of this state against those of the commit before the house was laid anew, in turn.

Both read the same lanes, send to the same nginx and share one home; only the code differs.
"""

from __future__ import annotations

import asyncio
import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.core.throughput import BLOCKS, DELIVERIES, FANOUT, SETTINGS, Shape
from bench.house.structure import ROOT
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.daemon import Daemon

BEFORE = "e8f0d88"  #: the last commit before this house

GOALS = (
    Goal(name="throughput_f1_new_old", text="≥ 0.97", unit="ratio", n=DELIVERIES),
    Goal(name="throughput_f20_new_old", text="≥ 0.97", unit="ratio", n=DELIVERIES),
)


def unpack(commit: str, folder: Path) -> Path:
    """Write the tree of *commit* below *folder* and return where it is.

    Raises:
        RuntimeError: this clone does not have the commit.
    """
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"git archive {commit}: {done.stderr.decode()[-300:]}")
    place = folder / commit
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tree:
        tree.extractall(place, filter="data")
    return place


async def compare(bench: Bench, broker: Broker, nginx: Nginx, shape: Shape, old: Path) -> tuple[float, int]:
    """Race new and old code; return the median of the pair ratios, and the deliveries of a leg."""
    deliveries = bench.count(DELIVERIES, 40 * shape.fanout)
    events = shape.events(deliveries)
    requests = len(events) * shape.fanout
    before = SETTINGS | {"PYTHONPATH": str(old), "PYTHONSAFEPATH": "1"}
    async with (
        Daemon(bench.folder, broker.url, SETTINGS) as new_daemon,
        Daemon(bench.folder, broker.url, before) as old_daemon,
    ):
        new = Track(bench, broker, nginx, new_daemon)
        earlier = Track(bench, broker, nginx, old_daemon)
        await new_daemon.subscribe(shape.subscriptions(nginx))
        await new.lay_out()
        ratio = await race(
            bench,
            f"throughput_{shape.label}_new_old",
            lambda: new.run_daemon(events, requests),
            lambda: earlier.run_daemon(events, requests),
            bench.count(BLOCKS),
        )
    return ratio, requests


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race with fan-out 1 and 20."""
    old = await asyncio.to_thread(unpack, BEFORE, bench.folder)
    async with Broker(bench) as broker, Nginx(bench.folder) as nginx:
        f1, n1 = await compare(bench, broker, nginx, Shape("f1"), old)
        f20, n20 = await compare(bench, broker, nginx, Shape("f20", fanout=FANOUT), old)
    return [
        Measured(name="throughput_f1_new_old", value=round(f1, 3), n=n1),
        Measured(name="throughput_f20_new_old", value=round(f20, 3), n=n20),
    ]


PROOF = Proof("throughput", GOALS, prove)
