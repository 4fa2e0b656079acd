"""Decide whether this worker is ready, for ``/readyz``, and list the faults that do not stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from consumer.edges.broker.edge import BrokerEdge
from consumer.flow.base.context import Context
from consumer.flow.returns import Returns
from consumer.flow.store.consume_gate import ConsumeGate
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.take.backlog import Backlog

DRY = "dry: nothing is sent; see [sending] mode"
API_STARTS = "the API is starting"
FULL = "waiting_bytes is reached: fresh events stay in their lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Asks each part of the worker."""

    edge: BrokerEdge
    consume_gate: ConsumeGate
    subscriptions: Subscriptions
    backlog: Backlog
    context: Context
    returns: Returns
    stopping: asyncio.Event  #: set by the first signal
    is_dry: bool
    awaited: list[str] = field(default_factory=list)  #: further steps of the start that delay the first event

    def unready(self) -> str | None:
        """Return why no event is delivered now; None where events are delivered."""
        if self.stopping.is_set():
            return "draining"
        if self.subscriptions.trust.reason is not None:
            return self.subscriptions.trust.reason
        broken = self.edge.unready()
        unread = "read" in self.context.observe.store_faults
        if not self.consume_gate.is_open and (broken is None or unread):
            return self.awaited[0] if self.awaited else "the subscriptions cannot be loaded; see the log"
        return broken or self.context.local_faults.unready(self.context.clock.monotonic())

    def notes(self) -> Sequence[str]:
        """Return the faults that stop nothing; they contain no names, since everybody may ask."""
        own = (DRY if self.is_dry else "", FULL if self.backlog.full else "")
        return (*filter(None, own), *self.edge.notes(), *self.returns.notes(), *self.subscriptions.notes())
