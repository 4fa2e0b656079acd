"""Trace events in the history and the store of the settings.

Data flow: event id or filters -> Inquiry, with the deliveries seen on the rungs -> EventTrace.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from consumer.cli.history.shared import demand_subscription, warn_if_off
from consumer.cli.values.traces import Filters
from consumer.core.errors import ConfigError
from consumer.core.history.trace import EventTrace
from consumer.core.text.ids import event_id as webhook_id
from consumer.edges.operate.inquiry import Ask, Inquiry, SeenWaiting, opened_inquiry
from consumer.settings import Settings


class RecordedTraces:
    """The traces of one history."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings, and warn if they keep only a part of the history."""
        self._settings = settings
        self._waiting: Sequence[SeenWaiting] = ()
        self._is_live = False
        warn_if_off(settings)

    def look(self, event_id: str | None, filters: Filters) -> None:
        """Look into the rungs too, for what follows."""
        from consumer.cli.history.live import look  # noqa: PLC0415 (imports the broker, which few calls need)

        self._is_live = True
        self._waiting = look(self._settings, event_id and webhook_id(event_id), filters)

    def event(self, event_id: str, filters: Filters) -> Sequence[EventTrace]:
        """Return the traces of an event; several if tenants share the id."""

        async def find() -> Sequence[EventTrace]:
            async with opened_inquiry(self._settings) as inquiry:
                found: Sequence[EventTrace] = ()
                for of in dict.fromkeys((event_id, webhook_id(event_id))):  # it may be sent as its hash
                    if not found:
                        tenant = filters.tenant
                        found = await inquiry.event(of, time.time(), tenant=tenant, waiting=self._waiting)
                await _check(inquiry, filters, found)
                return found

        found = asyncio.run(find())
        if not found:
            raise ConfigError(self._nothing(event_id))
        return found

    def newest(self, filters: Filters, limit: int) -> Sequence[EventTrace]:
        """Return traces of the newest matching deliveries, each with this one delivery, in order of time."""
        ask = Ask(
            delivery_id=filters.delivery_id,
            subscription_id=filters.subscription_id,
            tenant=filters.tenant,
            failed=filters.failed,
            since=filters.since,
            limit=limit,
        )

        async def find() -> Sequence[EventTrace]:
            async with opened_inquiry(self._settings) as inquiry:
                found = await inquiry.deliveries(ask, time.time(), self._waiting)
                await _check(inquiry, filters, found)
                return found

        return asyncio.run(find())

    def _nothing(self, event_id: str) -> str:
        look = "" if self._is_live else ", or look into the rungs with --live"
        return (
            f"nothing is known of {event_id}: its steps may be older than [history] max_age_s "
            f"({self._settings.history.max_age_s:g} s), or no worker has taken it yet; check the id{look}"
        )


async def _check(inquiry: Inquiry, filters: Filters, found: Sequence[EventTrace]) -> None:
    known = {each.subscription_id for event in found for each in event.deliveries}
    if filters.subscription_id not in known:
        await demand_subscription(inquiry.lookup, filters.named)
