"""Bound the backlog on the broker, whose disk belongs to the customer too.

Data flow: depths of our queues (edge, every 10 s) x mean size of a delivery message -> :class:`Backlog`
-> gauge, warning at 80 %; at 100 % the lanes are left alone until it is under 95 % again.

Long before that, a tenant with more waiting than is free has its new failures parked: see
:mod:`consumer.core.fairness.waiting_shares`.

AMQP gives the number of messages in a queue, without their size. So bytes are an estimate: the mean size of
messages that this worker published lately, headers included. More is on disk: quorum queues keep a log.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core.listeners import Listeners
from consumer.flow.base.context import BacklogLimit, Weight
from consumer.flow.observe.observer import Observer

COUNTED = ("wait", "due", "stray", "replay")  #: labels of the queues that hold delivery messages
ALERT_RATIO = 0.8
RELIEF_RATIO = 0.95


class Backlog:
    """Decides whether fresh events are left in their lanes.

    Implements :class:`consumer.ports.QueueDepths`.

    Attributes:
        full: Fresh events are left there.
        changes: Listeners to changes of :attr:`full`.
    """

    def __init__(self, limit: BacklogLimit, weight: Weight, observe: Observer) -> None:
        """Begin with nothing that waits.

        Args:
            limit: ``[limits] waiting_bytes``, and the bound of each tenant; it is given the estimates.
            weight: Mean size of a delivery message, as this worker knows it.
            observe: Takes reports.
        """
        self._limit = limit
        self._limit_bytes = limit.limit_bytes
        self._weight = weight
        self._observe = observe
        self._high = False
        self.full = False
        self.changes: Listeners[[]] = Listeners()
        observe.waiting_limited(limit.limit_bytes)

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """Take the number of messages by kind of queue; without a look the last one counts on."""
        if not totals:
            return
        messages = sum(totals.get(label, 0) for label in COUNTED)
        waiting_bytes = messages * self._weight.mean_bytes
        self._limit.measured(waiting_bytes)
        self._observe.waiting_estimated(waiting_bytes)
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
            self.changes.notify()
