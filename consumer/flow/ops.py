"""Tell operators what happened: on ``leveret.ops``, and to the subscriptions of the tenant ``leveret``.

To these go delivery messages, past the lanes: what comes by a lane may be any publisher's word.

Data flow: Observer -> :meth:`Ops.note` -> core.ops.Digest -> publishes, confirmed; never in the way of
a delivery. While the broker is away the newest events are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque

from consumer.core.delivery import DeliveryMessage
from consumer.core.errors import BrokerUnavailable
from consumer.core.model import OPERATORS
from consumer.core.ops import Digest, Note, OpsEvent
from consumer.flow.outbox import Outbox
from consumer.flow.registry import Registry
from consumer.flow.world import World
from consumer.ports import Publication

LOOK_S = 1.0  #: how often sums are looked for
KEPT = 1_000  #: events that wait for the broker
SOURCE = "/leveret"


class Ops:
    """The teller of one worker."""

    def __init__(self, world: World, registry: Registry) -> None:
        """Bind to the flow and be told by its observer."""
        self._world = world
        self._registry = registry
        self._outbox = Outbox(world)
        self._digest = Digest()
        self._owed: deque[Publication] = deque(maxlen=KEPT)
        self._flushing = asyncio.Lock()
        world.observe.on_note = self.note

    def note(self, note: Note) -> None:
        """Take a note; returns at once."""
        for event in self._digest.note(note, self._world.clock.now()):
            self._owe(event)

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            for event in self._digest.due(self._world.clock.now()):
                self._owe(event)
            await self.flush()

    async def flush(self) -> None:
        """Publish what is owed, as far as the broker takes it; one at a time, so that each is told once."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        while self._owed:
            oldest = self._owed[0]
            try:
                await self._world.publisher.publish(oldest)
            except BrokerUnavailable:
                return
            if self._owed and self._owed[0] is oldest:  # it may have been pushed out, or told, meanwhile
                self._owed.popleft()
            self._world.observe.series.ops_events.inc()

    async def finish(self) -> None:
        """Tell all there is, also what is summed up still; as far as the broker takes it."""
        for event in self._digest.left(self._world.clock.now()):
            self._owe(event)
        await self.flush()

    def _owe(self, event: OpsEvent) -> None:
        names, kind = self._world.names, event.note.type.value
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
        # What befalls the administrator's own endpoint would go round for ever.
        if event.note.tenant == OPERATORS:
            return
        told = event.event(self._world.clock.now())
        targets = [subscription.id for subscription in self._registry.match(OPERATORS, kind)]
        size = self._world.bounds.max_targets_per_message
        for first in range(0, len(targets), size):
            some = tuple(targets[first : first + size])
            self._owed.append(self._outbox.due_now(DeliveryMessage(event=told, targets=some)))
