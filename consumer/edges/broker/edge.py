"""The broker edge: both connections kept alive, the topology declared, windows open, queue sizes read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from aio_pika.abc import AbstractConnection

from consumer.core.errors import TopologyMismatch
from consumer.edges.broker.budget import Budget
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    KeepAlive,
    closed,
    open_channel,
    underlay,
)
from consumer.edges.broker.connection.refusals import Refusals
from consumer.edges.broker.inspect import Inspection
from consumer.edges.broker.publisher import ConfirmingPublisher
from consumer.edges.broker.queue_depths import follow_sizes
from consumer.edges.broker.routes import BrokerRoutes
from consumer.edges.broker.store_record import BrokerStoreRecord
from consumer.edges.broker.windows import UNBOUNDED, Window, WindowReader
from consumer.flow.observe.observer import Observer
from consumer.ports import Incoming, Source
from topology.check import Finding, Severity
from topology.declare import TopologyError, declare
from topology.names import Names
from topology.plan import Plan
from topology.probe import missing_parts

REPAIR_PAUSE_S = 2.0  #: the topology is declared anew at most this often
RECANCEL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOptions:
    """What the edge is to serve."""

    amqp: AmqpOptions
    plan: Plan
    windows: Sequence[Window]
    control: str | None  #: fanout exchange of control messages; None without the right to bind
    tenant_header: str = "tenant"  #: by which the route exchange tells tenants
    sized_queues: Sequence[tuple[str, str]] = ()  #: (queue, label of its gauge)
    declare: bool = True
    budget: Budget = field(default_factory=lambda: Budget(UNBOUNDED))  #: bytes in hand, all windows together
    inspection: Inspection | None = None  #: of the broker, beside the work; None: it is not looked at
    left: frozenset[Source] = frozenset()  #: left alone until :meth:`BrokerEdge.leave` says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Whom the edge tells."""

    deliver: Callable[[Source, Incoming], None]
    reopened: Callable[[], None]  #: a channel was lost: what came by it is dead
    pressed: Callable[[str | None], None]  #: why no new attempt should start, or that one may
    control: Callable[[bytes], None]
    connected: Callable[[], None] = lambda: None  #: the topology stands, and the store's record can be read
    listening: Callable[[], None]  #: from now on what is told to all workers is heard here


class BrokerEdge:
    """Keeps the daemon connected for ever."""

    def __init__(
        self,
        options: EdgeOptions,
        callbacks: Callbacks,
        observe: Observer,
        sample: Callable[[], float],
        instance: str,
    ) -> None:
        self._options = options
        self._callbacks = callbacks
        self._observe = observe
        refusals = Refusals(observe, time.monotonic)
        self._consuming = KeepAlive(options.amqp, "consume", observe, sample, refusals=refusals)
        self.publisher = ConfirmingPublisher(
            options.amqp, KeepAlive(options.amqp, "publish", observe, sample, refusals=refusals), instance
        )
        self.routes = BrokerRoutes(
            Names(options.plan.prefix).route, options.tenant_header, may_bind=options.declare
        )
        self.store_record = self._build_record(options)
        self.publisher.on_unroutable = self._ask_repair
        self.publisher.on_pressure = self._pressed
        self._budget = options.budget
        self._readers = [self._reader(window) for window in options.windows]
        self._instance = instance
        self._listens = count()
        self._left = options.left  #: not consumed for now, on purpose
        self._stopped = False
        self._pressure = asyncio.Event()  #: set: it began or ended
        self._repair = asyncio.Event()
        self._declared = False
        self.fatal: TopologyMismatch | None = None

    def _reader(self, window: Window) -> WindowReader:
        stray = window.source is Source.STRAY
        return WindowReader(
            window,
            self._observe,
            self._take_stray if stray else self._callbacks.deliver,
            self._window_broke,
            partial(self.wants, window.source),
            budget=self._budget,
        )

    def _build_record(self, options: EdgeOptions) -> BrokerStoreRecord:
        queues = [name for name, _ in options.sized_queues]
        names, publish = Names(options.plan.prefix), self.publisher.publish
        record = BrokerStoreRecord(names, queues, publish, may_declare=options.declare)
        record.on_missing = self._ask_repair
        return record

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            TopologyMismatch: at the start, when what stands on the broker is not what we need.
        """
        tasks = [
            asyncio.ensure_future(self.publisher.run()),
            asyncio.ensure_future(self._consuming.run(self._session)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def stop_consuming(self) -> None:
        """Cancel every consumer; channels stay open so that what is in hand can be settled."""
        self._stopped = True
        with self._budget.lifted():
            await self._follow()

    async def resume_consuming(self) -> None:
        """Consume again after :meth:`stop_consuming`."""
        self._stopped = False
        await self._follow()

    async def leave(self, sources: Collection[Source]) -> None:
        """Leave what is in the queues of these sources there, and consume from all others."""
        self._left = frozenset(sources)
        await self._follow()

    def wants(self, source: Source) -> bool:
        """Say whether it is to be consumed now.

        Not suspect while nothing is started: what is unstarted at a stop is given back, and there a return
        tells of a worker's death (fault 70).
        """
        rests = source is Source.SUSPECT and self.publisher.pressed() is not None
        return not (self._stopped or rests or source in self._left)

    async def flush(self) -> None:
        """Return once every ack is with the broker; no window waits for another."""
        await asyncio.gather(*(_flushed(reader) for reader in self._readers))

    def held_bytes(self) -> int:
        """Return what the messages in hand are charged."""
        return self._budget.held_bytes

    def unready(self) -> str | None:
        """Say what is missing before events are delivered, or None."""
        if not self._declared:
            return "the topology is not declared yet"
        quiet = [r.window.source.value for r in self._readers if self._misses(r)]
        if quiet:
            return f"not consuming: {', '.join(quiet)}"
        return self.publisher.pressed()

    def notes(self) -> Sequence[str]:
        """Say what differs on the broker and stops nothing; without names, since everybody may ask."""
        errors = sum(finding.severity is Severity.ERROR for finding in self._observe.findings)
        return [f"errors of `leveret topology check`: {errors}; see the log"] if errors else []

    def _misses(self, reader: WindowReader) -> bool:
        return not reader.consuming and (self._stopped or self.wants(reader.window.source))

    async def _follow(self) -> None:
        await asyncio.gather(*(reader.follow() for reader in self._readers))

    def _pressed(self, reason: str | None) -> None:
        self._callbacks.pressed(reason)
        self._pressure.set()

    def _ask_repair(self) -> None:
        self._repair.set()

    def _take_stray(self, source: Source, incoming: Incoming) -> None:
        """What lands in stray missed its own queue, and nobody was told: no publish came back."""
        self._repair.set()
        self._callbacks.deliver(source, incoming)

    def _window_broke(self) -> None:
        self._callbacks.reopened()
        self._repair.set()

    async def _session(self, connection: AbstractConnection) -> None:
        await self._declare(connection)
        self.routes.connection = self.store_record.connection = connection
        self._callbacks.connected()
        side_tasks: list[Awaitable[None]] = [
            self._repairs(connection),
            follow_sizes(connection, self._options.sized_queues, self._observe),
            self._follow_pressure(),
        ]
        if self._options.inspection is not None:
            side_tasks.append(self._options.inspection.follow(connection, self._observe))
        if self._options.control is not None:
            side_tasks.append(self._control(connection, self._options.control))
        tasks = [asyncio.ensure_future(t) for t in side_tasks]
        tasks += [asyncio.ensure_future(reader.run(connection)) for reader in self._readers]
        try:
            await closed(underlay(connection))
        finally:
            self.routes.connection = self.store_record.connection = None
            await end(tasks)
            self._callbacks.reopened()

    async def _declare(self, connection: AbstractConnection) -> None:
        """Declare the plan, or without the rights see that it stands.

        A mismatch ends the daemon at its start; later it is logged and tried again, since deliveries in
        hand still have to be settled.
        """
        try:
            if self._options.declare:
                for warning in await declare(self._options.plan, connection):
                    self._observe.warned("topology.differs", detail=warning)
            else:
                missing = await missing_parts(self._options.plan, connection)
                for spared in _demand(missing, Names(self._options.plan.prefix).store):
                    self._observe.warned("topology.differs", detail=str(spared))
        except (TopologyError, TopologyMismatch) as error:
            if not self._declared:
                self.fatal = TopologyMismatch(str(error))
                raise self.fatal from error
            self._observe.warned("topology.differs", detail=str(error))
        else:
            self.publisher.aside.look_again()
        self._declared = True

    async def _repairs(self, connection: AbstractConnection) -> None:
        """Declare again whenever a queue or binding turned out to be missing."""
        while True:
            await self._repair.wait()
            self._repair.clear()
            self._observe.said("topology.repairing")
            try:
                await self._declare(connection)
            except CONNECTION_ERRORS as error:
                self._observe.warned("topology.repair_failed", detail=str(error)[:300])
            await asyncio.sleep(REPAIR_PAUSE_S)

    async def _follow_pressure(self) -> None:
        """Leave suspect alone while nothing is started, and take it up again."""
        while True:
            await self._pressure.wait()
            self._pressure.clear()
            await self._follow()

    async def _control(self, connection: AbstractConnection, exchange: str) -> None:
        """Listen to what other workers and the command line tell all workers."""
        while True:
            try:
                channel = await open_channel(connection, confirms=False)
                # named by us, not by the broker: rights on our names are all that a user needs
                queue = f"{exchange}.{self._instance}.{next(self._listens)}"
                await channel.queue_declare(queue, exclusive=True, auto_delete=True)
                await channel.queue_bind(queue, exchange)

                async def take(message: object) -> None:
                    self._callbacks.control(getattr(message, "body", b""))

                await channel.basic_consume(queue, take, no_ack=True)
                self._callbacks.listening()
                await closed(channel, underlay(connection))
            except CONNECTION_ERRORS as error:
                self._observe.warned("control.lost", detail=str(error)[:300])
            await asyncio.sleep(REPAIR_PAUSE_S)


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel *tasks* until each has ended.

    Once is not enough: a call of the AMQP library that is cancelled while its connection closes raises the
    connection's error instead, and a loop that goes on after errors would go on.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=RECANCEL_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def _flushed(reader: WindowReader) -> None:
    with suppress(*CONNECTION_ERRORS):
        await reader.flush()


def _demand(missing: Sequence[Finding], store: str) -> Sequence[Finding]:
    """Refuse to go on without what is *missing*; return what a worker can do without: the store's record.

    Raises:
        TopologyMismatch: something else is missing.
    """
    spared = [finding for finding in missing if finding.subject.endswith(f" {store}")]
    if others := [finding for finding in missing if finding not in spared]:
        raise TopologyMismatch("; ".join(map(str, others[:5])))
    return spared
