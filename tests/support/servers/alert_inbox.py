"""The receiver of Alertmanager's messages, as docker-compose.yml runs it.

Data flow: Alertmanager -> POST -> AlertInbox -> the alerts by receiver.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from consumer.core.tools.behaviour import Behaviour
from consumer.edges.serve.listen import Listener, Received


class AlertInbox:
    """The receiver that docker-compose.yml runs, with the messages that it took."""

    def __init__(self) -> None:
        self.address = ""  #: HOST:PORT
        self._listener = Listener((), Behaviour(), self._take)
        self._messages: list[tuple[str, dict[str, Any]]] = []

    async def __aenter__(self) -> AlertInbox:
        self.address = f"127.0.0.1:{await self._listener.start(0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.stop()

    def _take(self, received: Received) -> None:
        self._messages.append((received.path.rpartition("/")[2], json.loads(received.body)))

    def alerts(self, receiver: str) -> list[dict[str, Any]]:
        """Return every alert in the messages to *receiver*."""
        return [alert for to, message in self._messages if to == receiver for alert in message["alerts"]]

    async def until(
        self, receiver: str, holds: Callable[[Mapping[str, Any]], bool], timeout_s: float = 60.0
    ) -> dict[str, Any]:
        """Return the first alert to *receiver* for which *holds* is true.

        Raises:
            TimeoutError: none came within *timeout_s*.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                found = [alert for alert in self.alerts(receiver) if holds(alert)]
                if found:
                    return found[0]
                await asyncio.sleep(0.1)


def named(name: str, status: str = "firing") -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for the alert *name* in a message."""
    return lambda alert: alert["labels"]["alertname"] == name and alert["status"] == status
