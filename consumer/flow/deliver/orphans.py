"""Cancel, keep or park orphans, which are deliveries whose subscription is not in memory.

    with a tombstone             -> archived, counted as cancelled
    without                      -> waits on, no attempt spent: the store may be wrong, or have lost changes
    without, and past its limit  -> parked as unknown_subscription

An unavailable store has no tombstones: then every delivery waits.

Source: faults 31, 81.
"""

from __future__ import annotations

from dataclasses import replace

from consumer.core.books import Step
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import rfc3339
from consumer.core.message.waiting import as_record
from consumer.core.model import ParkReason
from consumer.core.store.tombstone import Tombstone
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox, age_text
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.take.job import Job

LOOK_AGAIN_S = 30.0  #: shortest time until a delivery of an unknown subscription is checked again
LOOKS_PER_S = 100.0  #: such checks per second at most: the more deliveries wait, the longer each one waits
LOOKS_AHEAD_S = 3600.0  #: longest additional wait for that reason


class Orphans:
    """Ends or keeps single targets."""

    def __init__(self, context: Context, subscriptions: Subscriptions) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._outbox = Outbox(context)
        self._next_at = 0.0  #: monotonic seconds of the last planned check

    async def end(self, job: Job, message: DeliveryMessage, target: str, now: float) -> None:
        """Cancel, keep or park one target; return once that is on disk or confirmed.

        Raises:
            BrokerUnavailable: the broker gives the message out again.
        """
        single, event = replace(message, targets=(target,)), message.event
        tombstone = await self._subscriptions.tombstone(target)
        if tombstone is not None:
            await self._cancel(job, single, tombstone, now)
            return
        last = event.arrived_at + self._context.bounds.unknown_age_s
        last = last if event.expires_at is None else min(last, event.expires_at)
        if now >= last and not self._subscriptions.doubted():
            detail = (
                f"the store knows no subscription {target} and no deletion of it; {age_text(message, now)}"
            )
            reason = ParkReason.UNKNOWN_SUBSCRIPTION
            await self._outbox.park_delivery(single, reason, detail, of=job.targets)
            return
        self._context.observe.orphans.waits(event, target, self._context.clock.monotonic())
        await self._keep(job, single, now)

    async def _cancel(self, job: Job, single: DeliveryMessage, tombstone: Tombstone, now: float) -> None:
        by = f"{rfc3339(tombstone.deleted_at)} by {tombstone.deleted_by}"
        note = {
            "reason": "cancelled",
            "detail": f"the subscription {tombstone.tenant}/{tombstone.name} was deleted {by}",
            "cancelled_at": rfc3339(now),
        }
        try:
            await self._context.archive.append({**as_record(single, tombstone.id), **note})
        except OSError as error:
            self._context.observe.orphans.unarchived(single.event, tombstone.id, error)
            await self._keep(job, single, now)
            return
        reason = f"subscription deleted {by}"
        job.targets.close(Step.CANCELLED)
        self._context.observe.cancelled(single.event, tombstone.id, reason)
        self._context.notes.cancelled(single.event, tombstone.id, reason)

    async def _keep(self, job: Job, single: DeliveryMessage, now: float) -> None:
        """Store it for a later check; no attempt is spent."""
        began = self._context.clock.monotonic()
        ahead_s = min(self._next_at - began, LOOKS_AHEAD_S)
        wait_s = max(LOOK_AGAIN_S, ahead_s + 1 / LOOKS_PER_S)
        self._next_at = began + wait_s
        kept = replace(
            single,
            not_before=now + wait_s,
            wait_s=wait_s,
            served_s=0.0,
            exact=False,
            reserved=False,
            held=False,
        )
        await self._outbox.confirmed(self._outbox.stored(kept, direct=False), of=job.targets)
