"""Publish operational events: on ``leveret.ops``, and to the subscriptions of the tenant ``leveret``.

These subscriptions get delivery messages, without a lane: an event in a lane may be from any publisher.

Data flow: Observer -> :meth:`OperatorEvents.note` -> Digest -> publishes, confirmed; never in the way of
a delivery. While the broker is away, the newest events are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque

from consumer.core.errors import BrokerUnavailable, FrameTooLarge
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.operator_events import Digest, Note, OperatorEvent
from consumer.core.model import OPERATORS
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Publication

LOOK_S = 1.0  #: how often sums are looked for
KEPT = 1_000  #: events that wait for the broker
SOURCE = "/leveret"


class OperatorEvents:
    """Publishes the operational events of one worker."""

    def __init__(self, context: Context, subscriptions: Subscriptions) -> None:
        """Listen to the notes of the observer."""
        self._context = context
        self._subscriptions = subscriptions
        self._outbox = Outbox(context)
        self._digest = Digest()
        self._owed: deque[Publication] = deque(maxlen=KEPT)
        self._flushing = asyncio.Lock()
        context.observe.notes.add(self.note)

    def note(self, note: Note) -> None:
        """Take a note; returns at once."""
        for event in self._digest.note(note, self._context.clock.now()):
            self._owe(event)

    async def run(self) -> None:
        """Publish for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            for event in self._digest.due(self._context.clock.now()):
                self._owe(event)
            await self.flush()

    async def flush(self) -> None:
        """Publish the waiting events while the broker takes them; one at a time, so that none is doubled."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        while self._owed:
            oldest = self._owed[0]
            try:
                await self._context.publisher.publish(oldest)
            except BrokerUnavailable:
                return
            except FrameTooLarge as error:  # it can never be published, and must not hold the others up
                self._context.observe.warned("operators.dropped", detail=str(error))
                self._owed.popleft()
                continue
            if self._owed and self._owed[0] is oldest:  # it may have been pushed out, or published, meanwhile
                self._owed.popleft()
            self._context.observe.operators_informed()

    async def finish(self) -> None:
        """Publish everything, also notes that are still summed up, as far as the broker takes it."""
        for event in self._digest.left(self._context.clock.now()):
            self._owe(event)
        await self.flush()

    def _owe(self, event: OperatorEvent) -> None:
        names, kind = self._context.names, event.note.type.value
        self._owed.append(
            Publication(
                exchange=names.ops,
                routing_key=kind,
                body=event.cloud_event(SOURCE),
                content_type="application/cloudevents+json",
                message_id=event.id,
                mandatory=False,
            )
        )
        # An event about an administrator's own endpoint would cause the next one, for ever.
        if event.note.tenant == OPERATORS:
            return
        told = event.event(self._context.clock.now())
        targets = [subscription.id for subscription in self._subscriptions.match(OPERATORS, kind)]
        size = self._context.bounds.max_targets_per_message
        for first in range(0, len(targets), size):
            some = tuple(targets[first : first + size])
            self._owed.append(self._outbox.due_now(DeliveryMessage(event=told, targets=some)))
