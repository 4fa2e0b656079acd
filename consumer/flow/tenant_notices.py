"""Notify a tenant's own subscriptions once 50 of its entries are parked; never in the way of a delivery.

Data flow: index of parked entries -> :meth:`TenantNotices.look` -> delivery messages, confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from consumer.core.errors import BrokerUnavailable, LeveretError
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.tenant_notice import (
    MANY_PARKED_TYPE,
    ManyParked,
    asks_for_notices,
    many_parked_event,
)
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox
from consumer.flow.store.subscriptions import Subscriptions
from consumer.parked_ports import ParkedIndex

EVERY_S = 15.0


class TenantNotices:
    """Notifies tenants; only the leading worker does."""

    def __init__(
        self, context: Context, subscriptions: Subscriptions, index: ParkedIndex, leads: Callable[[], bool]
    ) -> None:
        """Bind to the flow.

        Args:
            context: The ports.
            subscriptions: Those that may be notified.
            index: Counts the parked entries.
            leads: Returns whether this worker is the one that notifies.
        """
        self._context = context
        self._subscriptions = subscriptions
        self._index = index
        self._leads = leads
        self._outbox = Outbox(context)
        self._many = ManyParked()

    async def run(self) -> None:
        """Look for ever; an error here stops nothing else."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.look()
            except Exception as error:
                self._context.observe.task_failed("tenant notices", error)

    async def look(self) -> None:
        """Notify the tenants that reached the number since the last look."""
        try:
            sizes = await self._index.parked_sizes()
        except (LeveretError, OSError) as error:
            self._context.observe.store_failed("read", error)
            return
        for tenant in self._many.reached(sizes):
            try:
                await self._notify(tenant, sizes[tenant])
            except BrokerUnavailable:
                self._many.forget(tenant)

    async def _notify(self, tenant: str, parked: int) -> None:
        matched = self._subscriptions.match(tenant, MANY_PARKED_TYPE)
        targets = [each.id for each in matched if asks_for_notices(each)]
        if not targets or not self._leads():
            return
        event = many_parked_event(tenant, parked, self._context.clock.now())
        for target in targets:
            message = DeliveryMessage(event=event, targets=(target,))
            await self._context.publisher.publish(self._outbox.due_now(message))
