"""Report each finished step: one log line and the metric updates. No other part of the worker logs or counts.

Event names are static ``noun.verbed``. Ids may be logged; bodies and secrets never are.
"""

from __future__ import annotations

from typing import Any

import structlog

from consumer.flow.observe.books import BooksReporter
from consumer.flow.observe.broker import BrokerReporter
from consumer.flow.observe.delivery import Attempted, DeliveryReporter
from consumer.flow.observe.endpoints import EndpointReporter
from consumer.flow.observe.fairness import FairnessReporter
from consumer.flow.observe.label_values import begin_at_zero
from consumer.flow.observe.returns import ReturnsReporter
from consumer.flow.observe.store import StoreReporter
from consumer.flow.observe.worker import Holdings, WorkerReporter
from metrics.series import MAX_SUBSCRIPTIONS, Series

__all__ = ["Attempted", "Holdings", "Observer"]


class Observer(DeliveryReporter, EndpointReporter, BrokerReporter, StoreReporter, WorkerReporter):
    """Turns finished steps into log lines and metrics; one part for each thing that is reported.

    Attributes:
        books: Shows the books, and reports on their file.
        fairness: Reports on rerouted tenants and even shares.
        returns: Reports on queues that do not give back their messages.
    """

    def __init__(self, series: Series, log: Any = None, subscriptions: int = MAX_SUBSCRIPTIONS) -> None:
        """Begin.

        Args:
            series: Every metric of this worker.
            log: A logger of structlog; None makes one, by the set-up of the log as it is now.
            subscriptions: Subscriptions with series of their own, at most: those in most trouble.
        """
        begin_at_zero(series)
        # bound once: otherwise structlog does it anew for each line
        super().__init__(series, structlog.get_logger().bind() if log is None else log, subscriptions)
        self.books = BooksReporter(series, self._log)
        self.returns = ReturnsReporter(series, self._log)
        self.fairness = FairnessReporter(series, self._log, self.notes.notify)
