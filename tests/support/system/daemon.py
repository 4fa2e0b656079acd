"""The daemon as a black box, and what a test needs around it: events, endpoints, a wire to cut.

Data flow: EventPublisher -> broker -> Daemon (a child process) -> Receiver; the test looks at its log lines,
its metrics and its health from outside. Everything waits on conditions with a deadline.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.error import HTTPError

import aio_pika
import orjson
import yaml
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.message.parked import entry_as_dict
from consumer.core.subscription.entry import SubscriptionRules
from consumer.core.webhook.signing import format_secret
from consumer.edges.operate.parked import browse
from consumer.edges.store import SqlStore, Step, open_store
from consumer.edges.store.sqlite import FILE_NAME
from consumer.settings import load_settings
from tests.support.broker.load import secret_of
from tests.support.processes import daemon as processes
from tests.support.processes.children import fetch, stop
from tests.support.servers.receiver import Received, Receiver
from topology.names import Names

T = TypeVar("T")

PATIENCE_S = 60.0  #: longest wait for a condition that must come, on the slowest machine
LOOK_S = 0.02  #: pause between two looks

SMALL: Mapping[str, str] = {
    "LEVERET_TOPOLOGY__LANES": "2",
    "LEVERET_TOPOLOGY__DUE_QUEUES": "2",
    "LEVERET_TOPOLOGY__SPILL_QUEUES": "1",
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.05,0.1,0.2,0.4,0.8,1.6]",
    "LEVERET_LOG__LEVEL": "debug",
    "LEVERET_AMQP__RECONNECT_MAX_S": "1",
}
"""Few queues and a short ladder: it starts fast and retries fast."""

QUICK: Mapping[str, object] = {"max_attempts": 3, "base_s": 0.1, "multiplier": 1, "max_s": 1, "jitter": 0}
"""A retry policy of three attempts, 0.1 s apart."""

BREAKER_OFF: Mapping[str, object] = {"failures": 0}


async def until(holds: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Return once *holds* is true.

    Raises:
        AssertionError: it was not within *timeout_s*.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or holds}"
        await asyncio.sleep(LOOK_S)


async def shown(look: Callable[[], Awaitable[Iterable[T]]], fits: Callable[[T], bool]) -> Sequence[T]:
    """Look until something fits; return all that does."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := [one for one in await look() if fits(one)]):  # noqa: ASYNC110 (another process tells)
            await asyncio.sleep(LOOK_S)
    return found


class Daemon(processes.Daemon):
    """One ``leveret run`` with a home of its own; what the proofs use, and looks inside."""

    def __init__(
        self, folder: Path, amqp_url: str, settings: Mapping[str, str] | None = None, name: str = "daemon"
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            folder: For its home and log.
            amqp_url: The broker, with its vhost.
            settings: Environment on top of :data:`SMALL`.
            name: Tells two daemons of one folder apart.
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

    def suspend(self) -> None:
        """SIGSTOP it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    # looks

    def lines(self, event: str = "") -> Iterator[dict[str, object]]:
        """Yield its JSON log lines, or only those named *event*; each is read once in many looks."""
        with self.log.open("rb") as log:
            log.seek(self._read_bytes)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]  # what comes behind is being written
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

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a series that carry *labels*; 0 when there is none."""
        total = 0.0
        for line in fetch(f"http://{self.listen}/metrics").decode().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match is None or match[1] != name:
                continue
            found = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            if labels.items() <= found.items():
                total += float(match[3])
        return total

    def health(self) -> str:
        """Return what ``/readyz`` says, with whatever status."""
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
        """Where its SQLite file is."""
        return self.home / FILE_NAME

    def store(self) -> SqlStore:
        """Open its store beside it, as the command line does."""
        return open_store(load_settings(environ=self.env))

    async def entries(self) -> Sequence[StoredEntry]:
        """Return what its store holds."""
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
            prune: Remove what *entries* do not name.
            enable: Enable again what was disabled.
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
        """Let it load what its store holds now.

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
        deadline = time.monotonic() + PATIENCE_S
        while True:
            rows = [r for r in await self._entries() if all(r.get(k) == v for k, v in fields.items())]
            if len(rows) >= count:
                return rows
            assert time.monotonic() < deadline, f"{len(rows)} of {count} parked {fields}"
            await asyncio.sleep(0.1)

    async def _entries(self) -> list[dict[str, Any]]:
        connection = await aio_pika.connect(self.env["LEVERET_AMQP_URL"])
        async with connection:
            return [entry_as_dict(entry) async for entry in browse(connection, self.names)]


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


class EventPublisher:
    """A user's application: publishes persistent, mandatory and confirmed."""

    def __init__(self, amqp_url: str, prefix: str = "leveret") -> None:
        self._url = amqp_url
        self._names = Names(prefix)
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None

    async def __aenter__(self) -> EventPublisher:
        self._connection = await aio_pika.connect(self._url)
        self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        self._exchange = await self._channel.get_exchange(self._names.events, ensure=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    @property
    def channel(self) -> AbstractChannel:
        """The channel, for what else a test does to the broker."""
        assert self._channel is not None
        return self._channel

    async def publish(
        self,
        tenant: str | None,
        kind: str = "order.created",
        body: bytes = b'{"n":1}',
        event_id: str = "",
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> str:
        """Publish one event and return its id.

        Args:
            tenant: Its tenant header; None leaves it out.
            kind: Routing key.
            body: Its bytes.
            event_id: ``message_id``; an empty text makes one.
            headers: Besides the tenant.
            properties: Of the message, as aio-pika names them.
        """
        made = f"evt_{secrets.token_hex(8)}" if event_id == "" else event_id
        named = {} if tenant is None else {"tenant": tenant}
        message = aio_pika.Message(
            body,
            headers={**named, **(headers or {})},
            message_id=made,
            delivery_mode=2,
            **{"content_type": "application/json", **properties},
        )
        assert self._exchange is not None
        await self._exchange.publish(message, kind, mandatory=True)
        return made

    async def publish_many(self, tenant: str, count: int, kind: str = "order.created") -> list[str]:
        """Publish *count* events side by side and return their ids."""
        return list(await asyncio.gather(*(self.publish(tenant, kind) for _ in range(count))))


def to(receiver: Receiver, target: str, tenant: str, **more: object) -> dict[str, object]:
    """Return one entry of a subscriptions file: all events of *tenant* to *target*, quick retries."""
    entry = {
        "tenant": tenant,
        "name": target,
        "url": receiver.url(target),
        "events": ["#"],
        "secrets": [secret(tenant, target)],
        "retry": dict(QUICK),
    }
    return entry | more


def _make_secret() -> str:
    return format_secret(secrets.token_bytes(32))


def secret(tenant: str, target: str) -> str:
    """Return the secret of the subscription that :func:`to` makes."""
    return secret_of(f"{tenant} {target}")


def requests_of(receiver: Receiver, target: str, event_id: str | None = None) -> list[Received]:
    """Return the requests that came to *target*, or those of one event, in their order."""
    return [r for r in receiver.requests if r.target == target and event_id in (None, r.webhook_id)]


def deliveries(receiver: Receiver, target: str) -> Counter[str]:
    """Return how often *target* answered each event with 200."""
    return Counter(r.webhook_id for r in receiver.requests if r.target == target and r.status == 200)


async def all_delivered(
    receiver: Receiver, target: str, ids: Sequence[str], timeout_s: float = PATIENCE_S
) -> Counter[str]:
    """Wait until *target* has taken every event of *ids*; return how often each."""
    wanted = set(ids)
    await until(
        lambda: wanted <= deliveries(receiver, target).keys(), f"{len(wanted)} events at {target}", timeout_s
    )
    return deliveries(receiver, target)


class Wire:
    """A TCP proxy between daemon and broker that can go silent without closing anything."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._old_silent = asyncio.Event()  #: set: connections made before swallow everything
        self._answers_flow = asyncio.Event()  #: cleared: what the broker says is kept back
        self._answers_flow.set()
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def cut(self) -> None:
        """Swallow all on the connections of now, without FIN or RST; later connections work."""
        self._old_silent.set()
        self._old_silent = asyncio.Event()

    def hold_answers(self) -> None:
        """Keep back what the broker says, on every connection."""
        self._answers_flow.clear()

    def let_answers_through(self) -> None:
        """Let it flow again, what was kept back first."""
        self._answers_flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        silent = self._old_silent
        there, away = await asyncio.open_connection(*self._upstream)
        pumps = {
            asyncio.create_task(self._pump(reader, away, silent, None)),
            asyncio.create_task(self._pump(there, writer, silent, self._answers_flow)),
        }
        self._pumps |= pumps
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()
            away.close()
            self._pumps -= pumps

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        silent: asyncio.Event,
        flows: asyncio.Event | None,
    ) -> None:
        try:
            while data := await source.read(65536):
                if silent.is_set():
                    continue
                if flows is not None:
                    await flows.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            return
