"""Estimate how much of the waiting deliveries belongs to each tenant, and bound it.

Data flow: each delivery message for a rung -> :meth:`WaitingShares.add` -> :func:`has_too_much`.

A message is on its rung for the rung's TTL, whoever takes it back. So each worker knows how many bytes of a
tenant it has put on rungs, without a count of the returns. Several workers see the same mixture of tenants,
so the shares of one worker are those of all.

The bound is a dynamic threshold: a tenant may hold as much as is still free. One tenant alone gets half of
the limit, two get a third each, and some of it is free always.

Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil
from typing import Final

SLOTS: Final = 16  #: parts of a wait in which messages are counted together
SHORTEST_S: Final = 1.0  #: shortest such part


class WaitingShares:
    """The bytes that one worker has put on rungs; times are monotonic seconds."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bytes: dict[str, float] = {}
        self._slots: dict[float, dict[str, float]] = {}  #: bytes that leave their rungs at a time
        self._ends: list[float] = []  #: the times of :attr:`_slots`, as a heap
        self.total_bytes = 0.0

    def add(self, tenant: str, size_bytes: float, wait_s: float, now: float) -> None:
        """Count a message that is on a rung for the next *wait_s* seconds."""
        self.advance(now)
        part_s = max(wait_s / SLOTS, SHORTEST_S)
        end = ceil((now + wait_s) / part_s) * part_s
        slot = self._slots.get(end)
        if slot is None:
            slot = self._slots[end] = {}
            heappush(self._ends, end)
        slot[tenant] = slot.get(tenant, 0.0) + size_bytes
        self._bytes[tenant] = self._bytes.get(tenant, 0.0) + size_bytes
        self.total_bytes += size_bytes

    def advance(self, now: float) -> None:
        """Forget the messages that have left their rungs."""
        while self._ends and self._ends[0] <= now:
            for tenant, size_bytes in self._slots.pop(heappop(self._ends)).items():
                left = self._bytes[tenant] - size_bytes
                self.total_bytes -= size_bytes
                if left > 0:
                    self._bytes[tenant] = left
                else:
                    del self._bytes[tenant]
        if not self._bytes:
            self.total_bytes = 0.0

    def ratio(self, tenant: str) -> float:
        """Return the share of *tenant* in what waits, 0 to 1."""
        return self._bytes.get(tenant, 0.0) / self.total_bytes if self.total_bytes else 0.0


def has_too_much(ratio: float, waiting_bytes: float, limit_bytes: float) -> bool:
    """Return whether a tenant holds more of the waiting bytes than are free.

    Args:
        ratio: Its share of *waiting_bytes*.
        waiting_bytes: Bytes of all waiting deliveries.
        limit_bytes: Bytes that may wait.
    """
    return ratio * waiting_bytes > max(limit_bytes - waiting_bytes, 0.0)
