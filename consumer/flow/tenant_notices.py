"""Notify a tenant's own subscriptions once 50 of its entries are parked; never in the way of a delivery.

Data flow: consumer.flow.store.parked_sizes -> :meth:`TenantNotices.take` -> delivery messages, confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumer.core.errors import BrokerUnavailable, FrameTooLarge
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


class TenantNotices:
    """Notifies tenants; only the leading worker does."""

    def __init__(
        self,
        context: Context,
        subscriptions: Subscriptions,
        *,
        loaded: Callable[[], bool],
        leads: Callable[[], bool],
    ) -> None:
        """Bind to the flow.

        Args:
            context: The ports.
            subscriptions: Those that may be notified.
            loaded: Returns whether the subscriptions are known.
            leads: Returns whether this worker is the one that notifies.
        """
        self._context = context
        self._subscriptions = subscriptions
        self._loaded = loaded
        self._leads = leads
        self._outbox = Outbox(context)
        self._many = ManyParked()

    async def take(self, sizes: Mapping[str, int]) -> None:
        """Notify the tenants that reached the number since the last call.

        Counts from before the subscriptions are known do not count: nobody could be notified of them.

        Args:
            sizes: Parked entries now, by tenant.
        """
        if not self._loaded():
            return
        for tenant in self._many.reached(sizes):
            try:
                await self._notify(tenant, sizes[tenant])
            except (BrokerUnavailable, FrameTooLarge):
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
