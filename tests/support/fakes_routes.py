"""A fake of ``ports.Routes``."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.core.errors import BrokerUnavailable


class FakeRoutes:
    """Implements ``ports.Routes``: remembers the bindings."""

    def __init__(self) -> None:
        self.bindings: set[tuple[str, str]] = set()
        self.stands: dict[str, int] = {}  #: number of ready messages, by queue
        self.asked = 0
        self.faults: list[BaseException] = []  #: raised by the next looks, one each
        self.allowed = True
        self.connected = True

    async def bind(self, tenant: str, queue: str) -> bool:
        """Bind, if :attr:`allowed`; return whether it was."""
        self._demand()
        if self.allowed:
            self.bindings.add((tenant, queue))
        return self.allowed

    async def unbind(self, tenant: str, queue: str) -> None:
        """Unbind, whether or not it was bound."""
        self._demand()
        self.bindings.discard((tenant, queue))

    async def ready(self, queues: Iterable[str]) -> dict[str, int]:
        """Return the numbers that the test set."""
        self._demand()
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)
        return {queue: self.stands.get(queue, 0) for queue in queues}

    def _demand(self) -> None:
        if not self.connected:
            raise BrokerUnavailable("no connection to the broker")
