"""Take control messages, which every worker gets: from other workers, and from an operator's commands.

Data flow: leveret.control -> :meth:`Control.take` -> Endpoints, Agreement, a reload of the subscriptions.
Any program with the right to publish there may send anything; a message that is not understood is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

import orjson

from consumer.flow.base.context import Context
from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions

MOST_CANCELLED = 10**9  #: targets that one command can have cancelled


class Control:
    """Takes the control messages of one worker."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        endpoints: Endpoints,
        agreement: Agreement,
        context: Context,
        reload: Callable[[], None],
    ) -> None:
        """Bind to the flow.

        Args:
            subscriptions: All subscriptions of this worker.
            endpoints: The states of their endpoints.
            agreement: Takes the messages of other workers, and knows which worker leads.
            context: The clock and the observer.
            reload: Begins to load the subscriptions anew.
        """
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._agreement = agreement
        self._context = context
        self._reload = reload

    def take(self, body: bytes) -> None:
        """Carry out one message."""
        try:
            message = orjson.loads(body)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        meant = self._subscriptions.get(str(message.get("subscription")))
        match message.get("kind"):
            case "reset":
                self._endpoints.reset(meant, self._context.clock.now())
            case "open":
                self._endpoints.force(meant)
            case "free":
                self._endpoints.steady(self._context.clock.now())
                self._endpoints.free(message.get("tenant"), message.get("subscription"))
            case "reload":
                self._reload()
            case "store":
                self._subscriptions.ask()
            case "purged":
                self._purged(message.get("ages_s"))
            case "kicked":
                self._left(message, comes_back=True)
            case "cancelled":
                self._cancelled(message.get("targets"), message.get("messages"))
                self._left(message, comes_back=False)
            case _:
                self._agreement.receive(message)

    def _purged(self, ages_s: object) -> None:
        """Count entries that an operator purged, each with its seconds in the parked queue, in one worker."""
        if isinstance(ages_s, list) and self._agreement.leads():
            self._context.observe.purged(float(age) for age in ages_s if isinstance(age, int | float))

    def _cancelled(self, *counts: object) -> None:
        """Note in the books of one worker how many waiting targets, and messages, an operator cancelled."""
        known = [count for count in counts if is_count(count)]
        if len(known) == len(counts) and self._agreement.leads():
            self._context.books.cancelled_waiting(*known)

    def _left(self, message: Mapping[str, object], *, comes_back: bool) -> None:
        """Take how many waiting deliveries of which subscriptions left, and whether others stayed.

        Args:
            message: The control message.
            comes_back: Whether a delivery that left may wait again already.
        """
        of = message.get("of")
        if isinstance(of, dict):
            known = {each: count for each, count in of.items() if is_count(count)}
            is_whole = message.get("whole") is True
            if is_whole and "subscription" in message:
                known = self._endpoints.counted(message.get("tenant"), message["subscription"]) | known
            self._endpoints.left(known, all_left=is_whole, comes_back=comes_back)


def is_count(count: object) -> TypeGuard[int]:
    """Return whether a command can have counted so many deliveries."""
    return isinstance(count, int) and 0 <= count <= MOST_CANCELLED
