"""What every route needs, complete at construction.

Data flow: Settings -> :func:`open_context` -> :class:`WebContext` -> ``request.state.context`` -> routes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

import structlog
from fastapi import Depends, Request

from consumer.core.subscription.rules import SubscriptionRules
from consumer.edges.history.build import open_history, open_sums
from consumer.edges.history.history_store import HistoryReader
from consumer.edges.process.system import SystemClock
from consumer.edges.store import SqlStore, StoreLookup, open_lookup, open_store
from consumer.ports import Clock
from consumer.settings import Settings
from consumer.web.activity_feed import ActivityFeed
from consumer.web.broker_link import BrokerLink
from consumer.web.daemon_link import DaemonLink
from consumer.web.shared.log import Log
from consumer.web.shared.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class WebContext:
    """Settings, store, history, broker, clock and log of the API."""

    settings: Settings
    rules: SubscriptionRules  #: defaults of subscriptions
    store: SqlStore
    lookup: StoreLookup  #: reads that need no key
    history: HistoryReader  #: steps of deliveries
    activity: ActivityFeed  #: sums of the last hour
    broker: BrokerLink
    daemon: DaemonLink
    clock: Clock
    log: Log
    parked_turn: asyncio.Lock = field(default_factory=asyncio.Lock)  #: held while the parked queue is read
    publishing: Turns = field(default_factory=Turns)  #: of tenant and idempotency key

    async def close(self) -> None:
        """Close every connection."""
        await self.activity.close()
        await self.daemon.close()
        await self.broker.close()
        await self.history.close()
        await self.lookup.close()
        await self.store.close()


def open_context(settings: Settings, clock: Clock | None = None) -> WebContext:
    """Return the context of *settings*; nothing is connected before its first use.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    clock, log = SystemClock() if clock is None else clock, structlog.get_logger()
    return WebContext(
        settings=settings,
        rules=settings.subscription_rules(),
        store=open_store(settings),
        lookup=open_lookup(settings),
        history=open_history(settings),
        activity=ActivityFeed(open_sums(settings), clock, log),
        broker=BrokerLink(settings),
        daemon=DaemonLink(settings),
        clock=clock,
        log=log,
    )


async def context_of(request: Request) -> WebContext:
    """Return the context of the app that serves *request*."""
    found: WebContext = request.state.context
    return found


Context = Annotated[WebContext, Depends(context_of)]
"""The type of a parameter through which a route gets the context."""
