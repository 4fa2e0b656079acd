"""The daemon as a black box.

Data flow: EventPublisher -> broker -> Daemon (a child process) -> Receiver; the test reads the log lines, the
metrics and the health of the daemon from outside. Each wait has a condition and a deadline.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import aio_pika
import orjson
import yaml

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.history.records import HistoryRow, Query, parted
from consumer.core.message.parked import entry_as_dict
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.webhook.signing import format_secret
from consumer.edges.history.build import open_history
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import browse
from consumer.edges.sqlite_file.file import FILE_NAME
from consumer.edges.store import SqlStore, Step, open_store
from consumer.settings import load_settings
from tests.support.processes import daemon as processes
from tests.support.processes.children import fetch, pause_s, stop
from tests.support.system.waiting import PATIENCE_S, until
from topology.names import Names

SMALL: Mapping[str, str] = {
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "2",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.05,0.1,0.2,0.4,0.8,1.6]",
    "LEVERET_LOG__LEVEL": "debug",
    "LEVERET_AMQP__RECONNECT_MAX_S": "1",
}
"""Few queues and a short ladder: it starts fast and retries fast."""


TURN = Turn(command="test", wait_s=PATIENCE_S)


class Daemon(processes.Daemon):
    """One ``leveret run`` with a home of its own: the daemon of the proofs, with methods to inspect it."""

    def __init__(
        self, folder: Path, amqp_url: str, settings: Mapping[str, str] | None = None, name: str = "daemon"
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            folder: For its home and log.
            amqp_url: The broker, with its vhost.
            settings: Environment on top of :data:`SMALL`.
            name: Distinguishes two daemons of one folder.
        """
        super().__init__(folder, amqp_url, {**SMALL, **(settings or {})}, name)
        self.log.touch()
        self._read_bytes = 0
        self._lines: dict[str, list[dict[str, object]]] = {}  #: by event; under "" all of them
        self.names = Names(self.env.get("LEVERET_TOPOLOGY__PREFIX", "leveret"))

    # process

    async def stop(self, timeout_s: float = PATIENCE_S) -> int | None:
        """SIGTERM; return the exit code, or None when it still runs after *timeout_s*."""
        self.terminate()
        return await self.wait_exit(timeout_s)

    def reload(self) -> None:
        """SIGHUP it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    # looks

    def lines(self, event: str = "") -> Iterator[dict[str, object]]:
        """Yield its JSON log lines, or only those named *event*; each is read once in many looks."""
        with self.log.open("rb") as log:
            log.seek(self._read_bytes)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]  # the part behind it is being written
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            with suppress(orjson.JSONDecodeError):  # no JSON, or cut off by a kill
                row: dict[str, object] = orjson.loads(line)
                for key in ("", str(row.get("event"))):
                    self._lines.setdefault(key, []).append(row)
        yield from self._lines.get(event, ())

    def count(self, event: str, **fields: object) -> int:
        """Count the log lines named *event* that hold *fields*."""
        return sum(all(line.get(k) == v for k, v in fields.items()) for line in self.lines(event))

    async def logged(
        self, event: str, timeout_s: float = PATIENCE_S, times: int = 1, **fields: object
    ) -> dict[str, Any]:
        """Wait for a log line named *event* that holds *fields*; return the last one."""
        what = f"log line {event} {fields}"
        await until(lambda: self.count(event, **fields) >= times, what, timeout_s)
        return [line for line in self.lines(event) if all(line.get(k) == v for k, v in fields.items())][-1]

    def health(self) -> str:
        """Return the body of ``/readyz``, for every status."""
        try:
            return fetch(f"http://{self.listen}/readyz", timeout_s=5).decode()
        except HTTPError as error:
            with error:
                return error.read().decode()

    def unready(self) -> str:
        """Return why ``/readyz`` is red; an empty text when it is green."""
        try:
            fetch(f"http://{self.listen}/readyz", timeout_s=5)
        except HTTPError as error:
            with error:
                return error.read().decode().strip() or str(error.code)
        except OSError as error:
            return f"nobody answers: {error}"
        return ""

    # subscriptions

    @property
    def store_path(self) -> Path:
        """The path of its SQLite file."""
        return self.home / FILE_NAME

    def store(self) -> SqlStore:
        """Open its store beside it, as the command line does."""
        return open_store(load_settings(environ=self.env))

    async def steps(self, event_id: str) -> Sequence[HistoryRow]:
        """Return the steps of an event, by its history."""
        reader = open_history(load_settings(environ=self.env))
        try:
            return list(parted(step.row for step in await reader.steps(Query(event_id=event_id))))
        finally:
            await reader.close()

    async def entries(self) -> Sequence[StoredEntry]:
        """Return the entries of its store."""
        store = self.store()
        try:
            return await store.entries()
        finally:
            await store.close()

    async def apply(
        self,
        *entries: Mapping[str, object],
        prune: bool = False,
        enable: bool = False,
        signal_it: bool = True,
    ) -> None:
        """Bring entries into its store and return once it has loaded them.

        Args:
            entries: Of a subscriptions file.
            prune: Remove subscriptions that *entries* do not name.
            enable: Enable disabled subscriptions again.
            signal_it: Send SIGHUP, which is faster than waiting for it to look; else the number of entries
                has to become another.
        """
        text = yaml.safe_dump({"subscriptions": [dict(entry) for entry in entries]})
        parsed = parse_subscriptions(text, "test.yaml", self._rules())
        merged = await self._change(
            lambda kept: merge(kept, parsed.entries, _make_secret, prune=prune, enable=enable)
        )
        running = self.process is not None and self.process.poll() is None
        if running and (merged.added or merged.changed or merged.removed):
            await (self.loaded() if signal_it else self.knows(len(merged.entries)))

    async def loaded(self) -> None:
        """Let it load the present content of its store.

        Twice: the first load that ends may have begun, and read, before now; the next one begins after that.
        """
        for _ in range(2):
            loads = self.count("subscriptions.loaded")
            self.reload()
            await until(partial(lambda loads: self.count("subscriptions.loaded") > loads, loads), "loaded")

    async def knows(self, count: int) -> None:
        """Return once it has *count* subscriptions in memory."""
        await until(lambda: self.metric("leveret_subscriptions") == count, f"it knows {count} subscriptions")

    async def _change(self, step: Step) -> Merge:
        store = self.store()
        try:
            return await store.change(step)
        finally:
            await store.close()

    def _rules(self) -> SubscriptionRules:
        return load_settings(environ=self.env).subscription_rules()

    # parked

    async def parked(self, count: int, **fields: object) -> list[dict[str, Any]]:
        """Wait for *count* parked entries that hold *fields*; return them as ``parked list`` shows them."""
        began = time.monotonic()
        while True:
            rows = [r for r in await self._entries() if all(r.get(k) == v for k, v in fields.items())]
            if len(rows) >= count:
                return rows
            waited_s = time.monotonic() - began
            assert waited_s < PATIENCE_S, f"{len(rows)} of {count} parked {fields}"
            await asyncio.sleep(max(0.1, pause_s(waited_s)))

    async def _entries(self) -> list[dict[str, Any]]:
        connection = await aio_pika.connect(self.env["LEVERET_AMQP_URL"])
        async with connection:
            return [entry_as_dict(entry) async for entry in browse(connection, self.names, TURN)]


@asynccontextmanager
async def running(
    folder: Path, amqp_url: str, settings: Mapping[str, str] | None = None, name: str = "daemon"
) -> AsyncIterator[Daemon]:
    """Run a daemon that is ready; end it afterwards, by force if need be."""
    daemon = Daemon(folder, amqp_url, settings, name)
    try:
        await daemon.start()
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.wake()
        await stop(daemon.process, 10)


def _make_secret() -> str:
    return format_secret(secrets.token_bytes(32))
