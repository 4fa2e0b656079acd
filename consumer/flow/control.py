"""Take control messages, which every worker gets: from other workers, and from an operator's commands.

Data flow: leveret.control -> :meth:`Control.take` -> Endpoints, Agreement, a reload of the subscriptions.
Any program with the right to publish there may send anything; a message that is not understood is ignored.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Clock


class Control:
    """Takes the control messages of one worker."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        endpoints: Endpoints,
        agreement: Agreement,
        clock: Clock,
        reload: Callable[[], None],
    ) -> None:
        """Bind to the flow; *reload* begins to load the subscriptions anew."""
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._agreement = agreement
        self._clock = clock
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
                self._endpoints.reset(meant, self._clock.now())
            case "open":
                self._endpoints.force(meant)
            case "free":
                self._endpoints.steady(self._clock.now())
                self._endpoints.free(message.get("tenant"), message.get("subscription"))
            case "reload":
                self._reload()
            case "store":
                self._subscriptions.ask()
            case _:
                self._agreement.receive(message)
