"""Run every look of `leveret doctor`, and join the findings in the order of the checks.

Data flow: settings -> broker | store | machine, at the same time -> network, which needs the entries of the
store -> findings. Each look has a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from consumer.core.message.operator_events import OperatorEventType
from consumer.core.message.tenant_notice import MANY_PARKED_TYPE
from consumer.core.model import OPERATORS
from consumer.core.tools.doctor.finding import Check, Finding, joined
from consumer.core.tools.doctor.subscriptions import never_matching, off_findings, unmatched_so_far
from consumer.core.tools.doctor.surroundings import clock_findings
from consumer.edges.doctor.broker import BrokerLook
from consumer.edges.doctor.history import events_seen
from consumer.edges.doctor.in_time import in_time
from consumer.edges.doctor.machine import look_at_daemon, look_at_machine
from consumer.edges.doctor.network import NetworkLook
from consumer.edges.doctor.store import StoreLook
from consumer.settings import Settings

ENDPOINTS = 200
"""Endpoints that are tried unless another number is asked for."""


async def examine(settings: Settings, most_endpoints: int = ENDPOINTS) -> Sequence[Finding]:
    """Return all findings, the parts that are well included.

    Args:
        settings: The settings of the daemon.
        most_endpoints: Endpoints that are connected to; 0 connects to none.
    """
    broker, store = BrokerLook(), StoreLook()
    machine, daemon, doubts, subscriptions = (list[Finding]() for _ in range(4))
    overdue = [
        *await asyncio.gather(
            in_time(broker.take(settings), Check.LOGIN, "the broker"),
            in_time(store.take(settings), Check.STORE, "the store"),
            in_time(
                _kept(asyncio.to_thread(look_at_machine, settings), machine), Check.HOME, str(settings.home)
            ),
            in_time(_kept(look_at_daemon(settings), daemon), Check.DAEMON, "the daemon"),
        )
    ]
    network = NetworkLook(wants_time=not (broker.readings or store.readings))
    overdue += await asyncio.gather(
        in_time(network.take(settings, store.entries, most_endpoints), Check.EGRESS, "the network"),
        in_time(_kept(_doubts(settings, broker, store), doubts), Check.STORE, "the broker's record"),
        in_time(_kept(_subscriptions(settings, store), subscriptions), Check.SUBSCRIPTIONS, "the history"),
    )
    clocks = clock_findings([*broker.readings, *store.readings, *network.readings])
    parts = (
        machine,
        broker.findings,
        store.findings,
        doubts,
        clocks,
        network.findings,
        subscriptions,
        daemon,
        *overdue,
    )
    return joined(finding for part in parts for finding in part)


async def _kept(look: Awaitable[Sequence[Finding]], found: list[Finding]) -> None:
    found += await look


async def _doubts(settings: Settings, broker: BrokerLook, store: StoreLook) -> Sequence[Finding]:
    if broker.options is None or broker.is_alarmed:
        return ()
    return await store.doubt(broker.options, settings)


async def _subscriptions(settings: Settings, store: StoreLook) -> Sequence[Finding]:
    if store.lineage is None:
        return ()
    briefs = store.briefs
    found = [*off_findings(briefs), *never_matching(briefs, OPERATORS, list(OperatorEventType))]
    seen = await events_seen(settings, briefs)
    return found if seen is None else [*found, *unmatched_so_far(briefs, seen, OPERATORS, [MANY_PARKED_TYPE])]
