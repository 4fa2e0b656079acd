"""Run every look of `leveret doctor`, and join the findings in the order of the checks.

Data flow: settings -> broker | store | machine, at the same time -> network, which needs the entries of the
store -> findings. Each look has a bounded time, and keeps what it found until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from consumer.core.message.operator_events import OperatorEventType
from consumer.core.message.tenant_notice import MANY_PARKED_TYPE
from consumer.core.model import OPERATORS
from consumer.core.tools.doctor.finding import Check, Finding, joined
from consumer.core.tools.doctor.subscriptions import never_matching, off_findings, unmatched_so_far
from consumer.core.tools.doctor.surroundings import clock_findings
from consumer.edges.doctor.broker import BrokerLook
from consumer.edges.doctor.history import events_seen
from consumer.edges.doctor.in_time import LIMIT_S, in_time, overdue
from consumer.edges.doctor.machine import look_at_daemon, look_at_machine
from consumer.edges.doctor.network import NetworkLook
from consumer.edges.doctor.store import StoreLook
from consumer.settings import Settings

ENDPOINTS: Final = 200
"""Endpoints that are tried unless another number is asked for."""

THREADS: Final = 64
"""Most threads for files and look-ups; one that hangs must leave room for the others."""

BROKER, STORE, DAEMON = "the broker", "the store", "the daemon"
NETWORK, RECORD, HISTORY = "the network", "the broker's record of the store", "the history"


@dataclass(slots=True)
class Examination:
    """All looks, and what they have found so far."""

    settings: Settings  #: those of the daemon
    most_endpoints: int = ENDPOINTS  #: endpoints that are connected to; 0 connects to none
    look_s: float = LIMIT_S  #: longest time of one look, in seconds
    _broker: BrokerLook = field(default_factory=BrokerLook, init=False)
    _store: StoreLook = field(default_factory=StoreLook, init=False)
    _network: NetworkLook = field(default_factory=NetworkLook, init=False)
    _machine: list[Finding] = field(default_factory=list, init=False)
    _daemon: list[Finding] = field(default_factory=list, init=False)
    _doubts: list[Finding] = field(default_factory=list, init=False)
    _subscriptions: list[Finding] = field(default_factory=list, init=False)
    _overdue: list[Finding] = field(default_factory=list, init=False)
    _open: dict[str, Check] = field(default_factory=dict, init=False)  #: looks that have not ended yet

    def __post_init__(self) -> None:
        """Note all looks as not ended."""
        self._open |= {str(self.settings.home): Check.HOME, BROKER: Check.LOGIN, STORE: Check.STORE}
        self._open |= {DAEMON: Check.DAEMON, NETWORK: Check.EGRESS, RECORD: Check.STORE}
        self._open |= {HISTORY: Check.SUBSCRIPTIONS}

    async def run(self) -> Sequence[Finding]:
        """Return all findings, the parts that are well included."""
        loop, settings = asyncio.get_running_loop(), self.settings
        loop.set_default_executor(ThreadPoolExecutor(THREADS, "doctor"))
        await asyncio.gather(
            self._look(BROKER, self._broker.take(settings)),
            self._look(STORE, self._store.take(settings)),
            self._look(
                str(settings.home), _kept(asyncio.to_thread(look_at_machine, settings), self._machine)
            ),
            self._look(DAEMON, _kept(look_at_daemon(settings), self._daemon)),
        )
        wants_time = not (self._broker.readings or self._store.readings)
        network = self._network.take(
            settings, self._store.entries, self.most_endpoints, wants_time=wants_time
        )
        await asyncio.gather(
            self._look(NETWORK, network),
            self._look(RECORD, _kept(self._doubt(), self._doubts)),
            self._look(HISTORY, _kept(self._unmatched(), self._subscriptions)),
        )
        return self.findings()

    def findings(self) -> Sequence[Finding]:
        """Return the findings so far; another thread may ask while the looks go on."""
        looks = (self._broker, self._store, self._network)
        clocks = clock_findings([reading for look in looks for reading in look.readings])
        parts = (
            *(self._machine, self._broker.findings, self._store.findings, self._doubts),
            *(clocks, self._network.findings, self._subscriptions, self._daemon, self._overdue),
        )
        return joined(finding for part in parts for finding in list(part))

    def unfinished(self, limit_s: float) -> Sequence[Finding]:
        """Return the findings so far, and a fault for each look that did not end within *limit_s*."""
        late = [overdue(check, subject, limit_s) for subject, check in list(self._open.items())]
        return joined([*self.findings(), *late])

    async def _look(self, subject: str, look: Coroutine[Any, Any, object]) -> None:
        self._overdue += await in_time(look, self._open[subject], subject, self.look_s)
        del self._open[subject]

    async def _doubt(self) -> Sequence[Finding]:
        broker = self._broker
        if broker.options is None or broker.is_alarmed:
            return ()
        return await self._store.doubt(broker.options, self.settings)

    async def _unmatched(self) -> Sequence[Finding]:
        if self._store.lineage is None:
            return ()
        briefs = self._store.briefs
        found = [*off_findings(briefs), *never_matching(briefs, OPERATORS, list(OperatorEventType))]
        seen = await events_seen(self.settings, briefs)
        if seen is None:
            return found
        return [*found, *unmatched_so_far(briefs, seen, OPERATORS, [MANY_PARKED_TYPE])]


async def _kept(look: Awaitable[Sequence[Finding]], found: list[Finding]) -> None:
    found += await look
