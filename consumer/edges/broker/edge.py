"""Run the consuming half of the broker edge: keep connections alive, declare the topology, open windows.

Data flow: queues -> windows -> the listener of :mod:`consumer.ports`; sizes of our queues -> their listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from aio_pika.abc import AbstractConnection

from consumer.core.errors import TopologyMismatch
from consumer.edges.broker.broker_ports import BrokerPorts
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, closed, open_channel, underlay
from consumer.edges.broker.connection.quorum_watch import ASKED
from consumer.edges.broker.connection.server import close_if_cancelled
from consumer.edges.broker.consume.byte_budget import ByteBudget
from consumer.edges.broker.consume.windows import UNBOUNDED, Window, WindowReader
from consumer.edges.broker.queue_depths import CountIndexed, ParkedTotal, follow_sizes, unknown
from consumer.edges.broker.topology_check import Inspection
from consumer.ports import BrokerListener, BrokerReports, Incoming, QueueDepths, Source
from consumer.tasks import OwnedTasks, Step, until_one_ends
from topology.check import Finding
from topology.declare import TopologyError, declare
from topology.names import Names
from topology.probe import missing_parts

REPAIR_PAUSE_S = 2.0  #: shortest pause between two declarations of the topology
NOTICE_S = 0.5  #: time in which every worker notices that a queue was deleted, before one declares it again


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOptions:
    """The windows to consume, and the checks beside them."""

    windows: Sequence[Window]
    control: str | None  #: fanout exchange of control messages; None without the right to bind
    depths: Sequence[QueueDepths] = ()  #: receive the number of messages in our queues
    #: Returns the number of parked messages by the store's index; None while it is unknown.
    count_indexed: CountIndexed = unknown
    #: Bytes in hand, all windows together.
    budget: ByteBudget = field(default_factory=lambda: ByteBudget(UNBOUNDED))
    inspection: Inspection | None = None  #: checks of the broker, beside the work; None for no checks
    left: frozenset[Source] = frozenset()  #: sources that are not consumed until :meth:`BrokerEdge.leave`


class BrokerEdge:
    """Keeps the daemon connected, until cancelled."""

    def __init__(
        self, options: EdgeOptions, ports: BrokerPorts, listener: BrokerListener, observe: BrokerReports
    ) -> None:
        """Bind to both sides; :meth:`run` connects.

        Args:
            options: Windows and checks.
            ports: The half that the flow calls.
            listener: The flow.
            observe: Receives reports.
        """
        self._options = options
        self._ports = ports
        self._listener = listener
        self._observe = observe
        self._budget = options.budget
        self._readers = [self._reader(window) for window in options.windows]
        self._listens = count()
        self._left = options.left  #: sources that are deliberately not consumed now
        self._stopped = False
        self._pressure = asyncio.Event()  #: set when back-pressure begins or ends
        ports.publisher.pressure.add(self._pressed)
        self._parked = ParkedTotal(options.count_indexed)
        self._declared = False
        self.fatal: TopologyMismatch | None = None

    def _reader(self, window: Window) -> WindowReader:
        stray = window.source is Source.STRAY
        return WindowReader(
            window,
            self._observe,
            self._take_stray if stray else self._listener.deliver,
            self._window_broke,
            partial(self.wants, window.source),
            budget=self._budget,
            health=self._ports.tasks,
        )

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            TopologyMismatch: at the start, the topology on the broker is not the planned one.
            TaskEnded: the task of a connection was cancelled by another one, or returned.
        """
        tasks = [
            asyncio.create_task(self._ports.publisher.run(), name="publishing connection"),
            asyncio.create_task(self._ports.consuming.run(self._session), name="consuming connection"),
        ]
        await until_one_ends(tasks)

    async def stop_consuming(self) -> None:
        """Cancel every consumer; channels stay open so that messages in hand can be settled."""
        self._stopped = True
        with self._budget.lifted():
            await self._follow()

    async def resume_consuming(self) -> None:
        """Consume again after :meth:`stop_consuming`."""
        self._stopped = False
        await self._follow()

    async def leave(self, sources: Collection[Source]) -> None:
        """Stop consuming from these sources, and consume from all others."""
        self._left = frozenset(sources)
        await self._follow()

    def wants(self, source: Source) -> bool:
        """Return whether *source* is to be consumed now.

        Suspect is not consumed under back-pressure: at a stop unstarted messages are given back, and from
        that queue a return would count as a worker's death (fault 70).
        """
        rests = source is Source.SUSPECT and self._ports.publisher.pressed() is not None
        return not (self._stopped or rests or source in self._left)

    async def flush(self) -> None:
        """Return once the broker has every ack; no window waits for another."""
        await asyncio.gather(*(_flushed(reader) for reader in self._readers))

    def consumes(self, source: Source) -> bool:
        """Return whether messages of *source* can arrive now."""
        return any(reader.consuming for reader in self._readers if reader.window.source is source)

    def held_bytes(self) -> int:
        """Return the bytes charged for the messages in hand."""
        return self._budget.held_bytes

    def bytes_by_source(self) -> Mapping[Source, int]:
        """Return the same bytes by the source of their messages."""
        return {reader.window.source: reader.in_hand.held for reader in self._readers}

    def unready(self) -> str | None:
        """Return why events are not delivered yet, or None."""
        if not self._declared:
            return "the topology is not declared yet"
        quiet = [r.window.source.value for r in self._readers if self._misses(r)]
        if quiet:
            return f"not consuming: {', '.join(quiet)}"
        return self._ports.publisher.pressed() or self._ports.tasks.unready()

    def notes(self) -> Sequence[str]:
        """Return harmless differences on the broker, without names, as anybody may read them."""
        errors = 0 if self._options.inspection is None else self._options.inspection.errors()
        stuck = len(self._ports.publisher.stuck_queues())
        return [
            *([f"errors of `leveret topology check`: {errors}; see the log"] if errors else []),
            *([f"queues that confirm no publish now: {stuck}; see the log"] if stuck else []),
        ]

    def _misses(self, reader: WindowReader) -> bool:
        return not reader.consuming and (self._stopped or self.wants(reader.window.source))

    async def _follow(self) -> None:
        await asyncio.gather(*(reader.follow() for reader in self._readers))

    def _pressed(self, reason: str | None) -> None:
        if reason is None:
            self._listener.relieved()
        self._pressure.set()

    def _take_stray(self, source: Source, incoming: Incoming) -> None:
        """Handle a message of the stray queue: it missed its own queue, and its publisher got no return."""
        self._ports.repair.set()
        self._listener.deliver(source, incoming)

    def _window_broke(self) -> None:
        self._listener.reopened()
        self._ports.repair.set()

    async def _session(self, connection: AbstractConnection) -> None:
        """Serve a connection; the first one is served once the topology is declared.

        Later ones are served at once, as a declaration takes about a second; it is made beside.
        """
        if self._declared:
            self._ports.repair.set()
        else:
            await self._declare(connection)
        with self._ports.current.serving(connection):
            self._listener.connected()
            await self._serve(connection)

    async def _serve(self, connection: AbstractConnection) -> None:
        """Run all tasks of a connection, until it closes."""
        transport = underlay(connection)
        tasks = OwnedTasks(self._ports.tasks, lambda: transport.is_closed)
        for name, step in self._steps(connection):
            tasks.keep(name, step)
        try:
            await closed(transport)
        finally:
            await tasks.end()
            self._listener.reopened()

    def _steps(self, connection: AbstractConnection) -> Iterator[tuple[str, Step]]:
        """Yield what runs side by side on a connection, by name."""
        options, ports = self._options, self._ports
        queues = ports.options.sized_queues
        yield "repair", partial(self._repairs, connection)
        yield "sizes", partial(follow_sizes, connection, queues, options.depths, self._parked)
        yield "suspect", self._follow_pressure
        asked = [queue for one in options.windows if one.source is Source.DUE for queue in one.queues]
        if len(asked) >= ASKED:  # fewer may be stuck for themselves
            yield "quorum", partial(ports.publisher.quorum.run, asked, partial(self.consumes, Source.DUE))
        if options.inspection is not None:
            yield "topology check", partial(options.inspection.follow, connection, self._observe)
        if options.control is not None:
            yield "control", partial(self._control, connection, options.control)
        for reader in self._readers:
            yield reader.name, partial(reader.run, connection)

    async def _declare(self, connection: AbstractConnection) -> None:
        """Declare the plan, or without the right to, check that it is declared.

        A mismatch ends the daemon at its start. Later it is logged and tried again, as deliveries in hand
        must still be settled.
        """
        options = self._ports.options
        try:
            if options.declare:
                for warning in await declare(options.plan, connection):
                    self._observe.warned("topology.differs", detail=warning)
            else:
                missing = await missing_parts(options.plan, connection)
                for spared in _demand(missing, Names(options.plan.prefix).store):
                    self._observe.warned("topology.differs", detail=str(spared))
        except (TopologyError, TopologyMismatch) as error:
            if not self._declared:
                self.fatal = TopologyMismatch(str(error))
                raise self.fatal from error
            self._observe.warned("topology.differs", detail=str(error))
        else:
            self._ports.publisher.exchange_channels.look_again()
        self._declared = True

    async def _repairs(self, connection: AbstractConnection) -> None:
        """Declare again on each further connection, and whenever a queue or binding is missing."""
        repair = self._ports.repair
        while True:
            await repair.wait()
            await asyncio.sleep(NOTICE_S)
            repair.clear()
            self._observe.said("topology.repairing")
            try:
                await self._declare(connection)
            except CONNECTION_ERRORS as error:
                self._observe.faulted("topology.repair_failed", REPAIR_PAUSE_S, detail=str(error)[:300])
            await asyncio.sleep(REPAIR_PAUSE_S)

    async def _follow_pressure(self) -> None:
        """Stop consuming suspect while back-pressure lasts, and resume afterwards."""
        while True:
            await self._pressure.wait()
            self._pressure.clear()
            await self._follow()

    async def _control(self, connection: AbstractConnection, exchange: str) -> None:
        """Receive the control messages of other workers and of the command line."""
        while True:
            try:
                channel = await open_channel(connection, confirms=False)
                close_if_cancelled(channel)
                # named by us instead of the broker, so that a user needs rights only on our names
                queue = f"{exchange}.{self._ports.options.instance}.{next(self._listens)}"
                await channel.queue_declare(queue, exclusive=True, auto_delete=True)
                await channel.queue_bind(queue, exchange)

                async def take(message: object) -> None:
                    try:
                        self._listener.control(getattr(message, "body", b""))
                    except Exception as error:  # a bug: the next message may be well
                        self._observe.task_failed("control", error)

                await channel.basic_consume(queue, take, no_ack=True)
                self._listener.listening()
                await closed(channel, underlay(connection))
            except CONNECTION_ERRORS as error:
                self._observe.faulted("control.lost", REPAIR_PAUSE_S, detail=str(error)[:300])
            await asyncio.sleep(REPAIR_PAUSE_S)


async def _flushed(reader: WindowReader) -> None:
    with suppress(*CONNECTION_ERRORS):
        await reader.flush()


def _demand(missing: Sequence[Finding], store: str) -> Sequence[Finding]:
    """Raise if parts are missing, except the store's record, which a worker can do without; return that.

    Raises:
        TopologyMismatch: another part is missing.
    """
    spared = [finding for finding in missing if finding.subject.endswith(f" {store}")]
    if others := [finding for finding in missing if finding not in spared]:
        raise TopologyMismatch("; ".join(map(str, others[:5])))
    return spared
