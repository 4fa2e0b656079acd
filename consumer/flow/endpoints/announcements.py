"""Collect the endpoints whose state changed, until Agreement publishes it to the other workers.

Data flow: Endpoints reports each change -> :class:`Announcements` -> Agreement -> leveret.control.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from consumer.flow.endpoints.endpoint import Endpoint
from consumer.ports import Clock

RECENT_S = 30.0  #: a change is repeated in each beat for this long, which heals lost messages
HELD_SLACK_S = 1.0  #: a pause is announced, and taken over, only where it is longer by more than this


class Announcements:
    """The announcements that are due.

    Attributes:
        wake: Set when something has to be published before the next beat.
    """

    def __init__(self, clock: Clock) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._due: set[str] = set()  #: subscription ids
        self._changed_at: dict[str, float] = {}  #: by subscription id, monotonic seconds
        self._last: dict[
            str, tuple[int, float]
        ] = {}  #: epoch and pause as announced last, by subscription id

    def changed(self, endpoint: Endpoint) -> None:
        """Announce an endpoint whose breaker changed its state, or whose pause began; unless it is known."""
        epoch, held_until = endpoint.breaker.epoch, endpoint.pace.held_until
        last_epoch, last_until = self._last.get(endpoint.subscription.id, (0, 0.0))
        if epoch != last_epoch or held_until > last_until + HELD_SLACK_S:
            self.mark_known(endpoint, held_until)
            self.announce(endpoint)

    def announce(self, endpoint: Endpoint) -> None:
        """Announce an endpoint, even if the same state was announced before."""
        subscription_id = endpoint.subscription.id
        self._changed_at[subscription_id] = self._clock.monotonic()
        self._due.add(subscription_id)
        self.wake.set()

    def mark_known(self, endpoint: Endpoint, held_until: float) -> None:
        """Take in that all workers know the epoch of an endpoint, and a pause until then (Unix seconds)."""
        self._last[endpoint.subscription.id] = (endpoint.breaker.epoch, held_until)

    def take_due(self) -> set[str]:
        """Return the ids of the subscriptions to announce now, and forget them."""
        due, self._due = self._due, set()
        return due

    def recent(self) -> set[str]:
        """Return the ids of the subscriptions that were announced within :data:`RECENT_S`."""
        now = self._clock.monotonic()
        self._changed_at = {key: at for key, at in self._changed_at.items() if now - at <= RECENT_S}
        return set(self._changed_at)

    def keep(self, subscription_ids: Collection[str]) -> None:
        """Forget all other subscriptions: they were removed."""
        self._due.intersection_update(subscription_ids)
        for of in (self._changed_at, self._last):
            for gone in of.keys() - subscription_ids:
                del of[gone]

    def forget(self) -> None:
        """Forget which epochs and pauses were announced: the wall clock was set."""
        self._last.clear()
