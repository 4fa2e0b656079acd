"""Measure a reload as the daemon does it: 10,000 subscriptions of one tenant in SQLite, one of them changed.

Data flow: another process's change -> SqlStore.load -> Registry, beside a task that watches the event loop.
Part of ``python -m bench.match``.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop
from prometheus_client import CollectorRegistry

from bench.core.silent_log import SilentLog
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.webhook.signing import format_secret
from consumer.edges.store import SqlStore, open_store
from consumer.flow.observe.observer import Observer
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.store.trust import Trust
from consumer.settings import load_settings
from metrics.series import Series
from tests.support.fakes_store import MemoryRecord, MemoryRecorder

RELOADS: Final = 20
TICK_S: Final = 0.001


@dataclass(slots=True)
class Reloads:
    """The time of each reload, in seconds."""

    took_s: list[float] = field(default_factory=list)  #: until the change is matched
    still_s: list[float] = field(default_factory=list)  #: the longest time in which the loop did nothing else


def measure(tenant: str, patterns: Sequence[str]) -> Reloads:
    """Store a subscription for each pattern, change :data:`RELOADS` of them one by one, reload after each."""
    with tempfile.TemporaryDirectory() as home:
        return uvloop.run(_measure(Path(home), tenant, patterns))


async def _measure(home: Path, tenant: str, patterns: Sequence[str]) -> Reloads:
    entries = [_entry(tenant, number, pattern) for number, pattern in enumerate(patterns)]
    writer, store = _store(home), _store(home)
    await _apply(writer, entries)
    observe = Observer(Series(CollectorRegistry()), SilentLog())
    trust = Trust(observe, MemoryRecord())
    subscriptions = Subscriptions(store, observe, MemoryRecorder(), trust, lambda _subscription: None)
    assert await subscriptions.reload()
    found = Reloads()
    for number in range(RELOADS):
        await _apply(writer, [_entry(tenant, number, f"changed.{number}")])
        watch = asyncio.create_task(_watch(gaps := [0.0]))
        began = time.perf_counter()
        assert await subscriptions.reload()
        found.took_s.append(time.perf_counter() - began)
        await asyncio.sleep(2 * TICK_S)  # a tick that came late is over
        watch.cancel()
        found.still_s.append(max(gaps))
        assert len(subscriptions.match(tenant, f"changed.{number}")) == 1
    await store.close()
    await writer.close()
    return found


async def _watch(gaps: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK_S)
        gaps.append(time.perf_counter() - began - TICK_S)


def _entry(tenant: str, number: int, pattern: str) -> SubscriptionEntry:
    values = {"tenant": tenant, "name": str(number), "url": f"https://hooks.example/{number}"}
    return SubscriptionEntry.model_validate({**values, "events": [pattern]})


def _store(home: Path) -> SqlStore:
    return open_store(load_settings(environ={"LEVERET_HOME": str(home)}))


async def _apply(store: SqlStore, entries: Sequence[SubscriptionEntry]) -> None:
    def step(kept: Sequence[StoredEntry]) -> Merge:
        return merge(kept, entries, lambda: format_secret(os.urandom(32)))

    await store.change(step)
