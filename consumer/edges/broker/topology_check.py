"""Run the checks of ``leveret topology check`` inside the daemon, within the rights of its user.

Data flow: plan + connection (arguments, unless they were declared) + management API (all the rest, with the
file limit of each node) -> findings -> a log line each, a gauge, a note on ``/readyz``. No finding stops the
daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS
from consumer.edges.management.reach import ManagementLogin
from consumer.ports import BrokerReports
from topology.check import Finding, Severity, check_snapshot
from topology.plan import Plan
from topology.probe import probe

SOON_S = 15.0  #: first pause: a node reports its file limit some seconds after its start
EVERY_S = 600.0


@dataclass(slots=True, kw_only=True)
class Inspection:
    """Compares the broker with the plan."""

    plan: Plan
    management: ManagementLogin | None  #: None: the management API is not known
    over_amqp: bool  #: whether to compare over AMQP too, as nothing was declared
    _findings: Sequence[Finding] = field(default=(), init=False)  #: of the last look

    async def follow(self, connection: AbstractConnection, observe: BrokerReports) -> None:
        """Check again and again, until cancelled."""
        pause_s = SOON_S
        while True:
            try:
                self._findings = await self._look(connection)
            except (BrokerUnavailable, *CONNECTION_ERRORS) as error:
                self._findings = [_unchecked(str(error) or type(error).__name__)]
            observe.topology_checked(self._findings)
            await asyncio.sleep(pause_s)
            pause_s = EVERY_S

    def errors(self) -> int:
        """Return how many differences of the last look are errors."""
        return sum(finding.severity is Severity.ERROR for finding in self._findings)

    async def _look(self, connection: AbstractConnection) -> Sequence[Finding]:
        over_amqp = await probe(self.plan, connection) if self.over_amqp else ()
        if self.management is None:
            return (*over_amqp, _unchecked("[amqp] management_url is not set"))
        # the library of this module takes some MB, and 0.2 s to import
        edge = await asyncio.to_thread(import_module, "consumer.edges.management.snapshot")
        snapshot = await edge.fetch_snapshot(self.management)
        return tuple(dict.fromkeys((*over_amqp, *check_snapshot(self.plan, snapshot))))


def _unchecked(why: str) -> Finding:
    what = "bindings, policies, plugin, feature flags and file limit"
    return Finding(Severity.NOTE, what, "were not looked at", why)
