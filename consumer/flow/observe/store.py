"""Report what becomes of the store and its subscriptions. Part of the Observer.

Implements :class:`consumer.ports.StoreReports`.
"""

from __future__ import annotations

from typing import Any

from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.reporter import Reporter
from metrics.series import Series


class StoreReporter(Reporter):
    """What happens to the store, and to the subscriptions in it.

    Attributes:
        store_faults: What is wrong with the store now, by step: read or write.
    """

    def __init__(self, series: Series, log: Any) -> None:
        super().__init__(series, log)
        series.store_up.set(1)
        series.store_trusted.set(1)
        self.store_faults: dict[str, str] = {}

    def reloaded(self, enabled: int, disabled: int, locked: int) -> None:
        """The subscriptions in memory are those of the store."""
        self._series.reloads.labels("ok").inc()
        self._series.subscriptions.labels("true").set(enabled)
        self._series.subscriptions.labels("false").set(disabled)
        self._series.locked.set(locked)
        self._log.info("subscriptions.loaded", enabled=enabled, disabled=disabled, locked=locked)

    def subscription_locked(self, subscription: Subscription) -> None:
        """Its secrets cannot be decrypted, or its policy is gone; nothing is sent to it."""
        self._log.error(
            "subscription.locked",
            tenant=subscription.tenant,
            subscription_id=subscription.id,
            detail=subscription.locked,
        )

    def reload_failed(self, error: Exception) -> None:
        """The subscriptions could not be loaded; delivery goes on with what is in memory."""
        self._series.reloads.labels("failed").inc()
        self.store_failed("read", error)

    def store_failed(self, step: str, error: Exception) -> None:
        """The store is away, or what it holds is wrong; the same fault is logged once.

        Args:
            step: ``read`` or ``write``.
            error: What is wrong.
        """
        self._series.store_up.set(0)
        if self.store_faults.get(step) != str(error):
            self.store_faults[step] = str(error)
            self._log.error("store.failed", step=step, detail=str(error))

    def store_worked(self, step: str) -> None:
        """The store could be read (or written), perhaps again."""
        if self.store_faults.pop(step, None) is not None:
            self._log.info("store.recovered", step=step)
            self._series.store_up.set(0 if self.store_faults else 1)

    def store_doubted(self, reason: str | None, doubt: str | None) -> None:
        """The store beside the memory is not believed, for a *reason* with the remedy; None: it is again."""
        self._series.store_trusted.set(1 if reason is None else 0)
        if reason is None:
            self._log.info("store.trusted")
        else:
            self._log.warning("store.doubted", doubt=doubt, detail=reason)

    def store_unconfirmed(self, why: str) -> None:
        """The broker does not say which store its messages were made with; nothing is consumed meanwhile."""
        self._log.warning("store.unconfirmed", detail=why)

    def records_dropped(self, count: int) -> None:
        """Lines of the index of parked entries were given up: the store has been away for long."""
        self._series.records_dropped.inc(count)
