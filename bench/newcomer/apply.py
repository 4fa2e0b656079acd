"""1,000 subscriptions from a folder of files, and how soon a running daemon uses one change."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import yaml

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from consumer.edges.sqlite_file.file import FILE_NAME
from consumer.edges.store.tables import REVISION
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

COUNT = 1_000
FILES = 10
ROUNDS = 20
PATIENCE_S = 10.0

GOALS = (
    Goal(name="apply_1000_s", text="≤ 5", unit="s", n=COUNT),
    Goal(name="change_visible_s", text="≤ 1", unit="s", n=ROUNDS),
)


def write_folder(folder: Path, count: int, timeout_s: int) -> Path:
    """Write *count* subscriptions of many tenants into a folder of files, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [
        {
            "tenant": f"many{number % 50:02d}",
            "name": f"shop {number}",
            "url": f"https://hooks{number}.example.com/orders?token={number:08d}",
            "events": ["order.*", "invoice.paid"],
            "retry": {"policy": "standard-webhooks"},
            "on_status": {"404": "park"},
            "headers": {"x-api-version": "2"},
            "timeout_s": timeout_s,
        }
        for number in range(count)
    ]
    size = -(-count // FILES)
    for start in range(0, count, size):
        text = yaml.safe_dump({"subscriptions": entries[start : start + size]})
        (folder / f"{start:04d}.yaml").write_text(text, "utf-8")
    return folder


async def timed(daemon: Daemon, folder: Path, said: str) -> tuple[float, bool]:
    """Apply *folder* by the command line; return the time that it took, and whether it succeeded."""
    began = time.perf_counter()
    out = await daemon.cli("subscriptions", "apply", str(folder))
    return time.perf_counter() - began, out.endswith(f"{said}\n")


async def prove_apply(bench: Bench, daemon: Daemon) -> Measured:
    """Apply them new, all changed, and unchanged; the slowest counts, start of the program included."""
    count = bench.count(COUNT)
    steps = (
        (15, f"{count} added, 0 changed, 0 unchanged, 0 removed"),
        (10, f"0 added, {count} changed, 0 unchanged, 0 removed"),
        (10, f"0 added, 0 changed, {count} unchanged, 0 removed"),
    )
    runs = [
        await timed(daemon, write_folder(bench.folder / "many", count, timeout_s), said)
        for timeout_s, said in steps
    ]
    bench.note("apply_added_changed_unchanged_s", [round(seconds, 2) for seconds, _ in runs])
    return Measured(
        name="apply_1000_s",
        value=round(max(seconds for seconds, _ in runs), 2),
        n=count,
        valid=all(right for _, right in runs),
    )


async def keep_publishing(url: str) -> None:
    """Publish events of the tenant that is watched, some every few milliseconds, until cancelled."""
    for burst in itertools.count():
        await publish(url, make_events(f"chg_{burst:06d}", 20, size=200))


async def arrived(sink: Sink, name: str) -> float | None:
    """Return when the first request for *name* came, in Unix seconds; None when none does."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = [seen.began for seen in sink.read() if seen.path == name]
        if found:
            return min(found)
        await asyncio.sleep(0.05)
    return None


def revision(home: Path) -> int:
    """Return the number of the store's last change, asked from outside."""
    with closing(sqlite3.connect(f"file:{home / FILE_NAME}?mode=ro", uri=True)) as database:
        return int(database.execute(f"SELECT number FROM {REVISION.name}").fetchone()[0])  # noqa: S608 - our own table


async def written(home: Path, before: int) -> float:
    """Return the Unix time of the last look, one every 5 ms, that found the store as it was *before*."""
    unchanged = time.time()
    while True:
        looked = time.time()
        if revision(home) != before:
            return unchanged
        unchanged = looked
        await asyncio.sleep(0.005)


async def one_change(bench: Bench, daemon: Daemon, sink: Sink, name: str) -> tuple[float, float] | None:
    """Move the subscription to another URL.

    Returns:
        Seconds from the moment that the command wrote it, and from the start of the command, to the first
        request there; None when there was none.
    """
    entry = subscription("moving", sink.url(name), retry=retry(), breaker=NO_BREAKER, concurrency=4)
    path = bench.folder / "moving.yaml"
    path.write_text(yaml.safe_dump({"subscriptions": [dict(entry)]}), "utf-8")
    writing = asyncio.create_task(written(daemon.home, revision(daemon.home)))
    began = time.time()
    try:
        await daemon.cli("subscriptions", "apply", str(path))
        first = await arrived(sink, name)
        return None if first is None or not writing.done() else (first - writing.result(), first - began)
    finally:
        writing.cancel()


async def prove_change(bench: Bench, daemon: Daemon, sink: Sink, url: str, names: Sequence[str]) -> Measured:
    """Change one of the 1,001 again and again under load; the slowest counts."""
    publishing = asyncio.create_task(keep_publishing(url))
    try:
        rounds = [await one_change(bench, daemon, sink, name) for name in names]
    finally:
        publishing.cancel()
        with suppress(asyncio.CancelledError):
            await publishing
    seen = [one for one in rounds if one is not None]
    bench.note("change_visible_all_s", [round(from_write, 3) for from_write, _ in seen])
    bench.note("change_visible_from_start_s", [round(from_start, 3) for _, from_start in seen])
    return Measured(
        name="change_visible_s",
        value=round(max((from_write for from_write, _ in seen), default=PATIENCE_S), 3),
        n=len(seen),
        valid=len(seen) == len(rounds),
    )


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure both at one daemon, which runs meanwhile."""
    names = [f"place{number:02d}" for number in range(bench.count(ROUNDS, 2))]
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, {name: f"/ok/{name}" for name in names}) as sink,
        Daemon(bench.folder, broker.url) as daemon,
    ):
        await daemon.start()
        applied = await prove_apply(bench, daemon)
        changed = await prove_change(bench, daemon, sink, broker.url, names)
        return [applied, changed]


PROOF = Proof("apply", GOALS, prove)
