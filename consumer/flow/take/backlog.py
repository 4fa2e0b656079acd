"""Bound what waits: the broker's disk is the customer's too.

Data flow: sizes of our queues (edge, every 10 s) x mean size of a delivery message -> :class:`Backlog`
-> gauge, warning at 80 %; at 100 % the lanes are left alone until it is under 95 % again.

AMQP tells how many messages a queue holds and not how large they are. So bytes are an estimate: the mean of
what this worker publishes lately, headers included. What is on disk is more: quorum queues keep a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumer.flow.base.context import Weight
from consumer.flow.observe.observer import Observer

COUNTED = ("wait", "due", "stray", "replay")  #: labels of the queues that hold delivery messages
ALERT_RATIO = 0.8
RELIEF_RATIO = 0.95


class Backlog:
    """Says whether fresh events are to be left in their lanes."""

    def __init__(self, limit_bytes: int, weight: Weight, observe: Observer) -> None:
        """Bind to the flow and be told of sizes by its observer.

        Args:
            limit_bytes: ``[limits] waiting_bytes``.
            weight: Mean size of a delivery message, as this worker knows it.
            observe: Is told what is wrong.
        """
        self._limit_bytes = limit_bytes
        self._weight = weight
        self._observe = observe
        self._high = False
        self.full = False
        self.on_change: Callable[[], None] = lambda: None  #: told when :attr:`full` changes
        observe.series.waiting_limit.set(limit_bytes)
        observe.on_sizes = self.looked

    def looked(self, totals: Mapping[str, int]) -> None:
        """Take the number of messages by kind of queue."""
        messages = sum(totals.get(label, 0) for label in COUNTED)
        waiting_bytes = messages * self._weight.mean_bytes
        self._observe.series.waiting_bytes.set(waiting_bytes)
        ratio = waiting_bytes / self._limit_bytes
        shown = {"messages": messages, "bytes": round(waiting_bytes), "limit_bytes": self._limit_bytes}
        if (ratio >= ALERT_RATIO) != self._high:
            self._high = not self._high
            if self._high:
                self._observe.warned("waiting.high", **shown)
        full = ratio >= (RELIEF_RATIO if self.full else 1.0)
        if full != self.full:
            self.full = full
            if full:
                self._observe.warned("waiting.full", **shown)
            else:
                self._observe.said("waiting.relieved", **shown)
            self.on_change()
