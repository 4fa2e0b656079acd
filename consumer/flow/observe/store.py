"""Report on the store and its subscriptions. Part of the Observer.

Implements ``StoreReports``, ``HistoryReports`` and ``LookupReports`` of :mod:`consumer.ports`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.reporter import Reporter, about
from metrics.series import Series


class StoreReporter(Reporter):
    """Reports on the store, and on the subscriptions in it.

    Attributes:
        store_faults: The present faults of the store, by step: read or write.
    """

    def __init__(self, series: Series, log: Any) -> None:
        super().__init__(series, log)
        series.store_up.set(1)
        series.store_trusted.set(1)
        self.store_faults: dict[str, str] = {}
        self._store_faults = {step: self._fault_log() for step in ("read", "write")}
        self._history_away = False
        self._history_faults = self._fault_log()
        self._lookups_away = False
        self._lookup_faults = self._fault_log()
        self._secret_ends: list[int] = []  #: Unix seconds, the soonest one last

    def secrets_end(self, ends: Iterable[int]) -> None:
        """Take when replaced secrets stop signing, in Unix seconds."""
        self._secret_ends = sorted(ends, reverse=True)

    def secrets_checked(self, now: float) -> None:
        """Show when the next replaced secret stops signing; *now* is in Unix seconds."""
        ends = self._secret_ends
        while ends and ends[-1] <= now:
            ends.pop()
        self._series.secret_expiry.set(ends[-1] if ends else 0)

    def reloaded(self, enabled: int, disabled: int, locked: int) -> None:
        """Report that the subscriptions were loaded."""
        self._series.reloads.labels("ok").inc()
        self._series.subscriptions.labels("true").set(enabled)
        self._series.subscriptions.labels("false").set(disabled)
        self._series.locked.set(locked)
        self._log.info("subscriptions.loaded", enabled=enabled, disabled=disabled, locked=locked)

    def subscription_locked(self, subscription: Subscription) -> None:
        """Report a subscription that gets nothing: its secrets cannot be decrypted, or its policy is gone."""
        self._log.error("subscription.locked", **about(subscription), detail=subscription.locked)

    def reload_failed(self, error: Exception) -> None:
        """Report that the subscriptions could not be loaded; delivery goes on with those in memory."""
        self._series.reloads.labels("failed").inc()
        self.store_failed("read", error)

    def store_failed(self, step: str, error: Exception) -> None:
        """Report that the store is away, or holds invalid rows; the same fault is logged once a minute.

        Args:
            step: ``read`` or ``write``.
            error: The fault.
        """
        self._series.store_up.set(0)
        self.store_faults[step] = str(error)
        fault = {"step": step, "detail": str(error)}
        self._store_faults[step].error("store.failed", self.now(), fault)

    def store_worked(self, step: str) -> None:
        """Report that the store could be read (or written), perhaps again."""
        if self.store_faults.pop(step, None) is not None:
            self._log.info("store.recovered", step=step, **self._store_faults[step].end())
            self._series.store_up.set(0 if self.store_faults else 1)

    def store_doubted(self, reason: str | None, doubt: str | None) -> None:
        """Report that the store is not trusted, with the *reason* and the remedy; None: it is again."""
        self._series.store_trusted.set(1 if reason is None else 0)
        if reason is None:
            self._log.info("store.trusted")
        else:
            self._log.warning("store.doubted", doubt=doubt, detail=reason)

    def store_unconfirmed(self, why: str) -> None:
        """Warn that the broker's record of the store cannot be read; nothing is consumed meanwhile."""
        self._log.warning("store.unconfirmed", detail=why)

    def parked_counted(self, entries: int, oldest_at: float | None) -> None:
        """Show how many entries are parked, and when the oldest one was, in Unix seconds; None: no entry."""
        self._series.parked_entries.set(entries)
        self._series.oldest_parked.set(0 if oldest_at is None else oldest_at)

    def parked_indexed(self, count: int) -> None:
        """Set the gauge of the parked messages by the index."""
        self._series.parked_indexed.set(count)

    def parked_index_differs(self, indexed: int, queued: int) -> None:
        """Warn that the index of parked entries has a gap, or rows of entries that are gone."""
        detail = "run `leveret parked reindex`"
        self._log.warning("parked.index_differs", indexed=indexed, queued=queued, detail=detail)

    def records_dropped(self, count: int) -> None:
        """Count lines of the index of parked entries that were given up: the store was away for long."""
        self._series.records_dropped.inc(count)

    def history_dropped(self, reason: str, count: int) -> None:
        """So many rows of the history are not recorded."""
        self._series.history_dropped.labels(reason).inc(count)

    def history_failed(self, error: Exception) -> None:
        """The history cannot be written; deliveries go on, and its rows wait. Logged once a minute."""
        self._history_away = True
        detail = str(error) or "no answer in time"
        self._history_faults.warning("history.failed", self.now(), {"detail": detail})

    def history_worked(self) -> None:
        """The history was written, perhaps again."""
        if self._history_away:
            self._history_away = False
            self._log.info("history.recovered", **self._history_faults.end())

    def lookups_missed(self, count: int) -> None:
        """So many events were sent without a look-up of repeated ids in the history."""
        self._series.lookups_missed.inc(count)

    def lookups_failed(self, error: Exception) -> None:
        """The history cannot be read in time; events are sent all the same. Logged once a minute."""
        self._lookups_away = True
        detail = str(error) or "no answer in time"
        self._lookup_faults.warning("history.unreadable", self.now(), {"detail": detail})

    def lookups_worked(self) -> None:
        """The history can be read, perhaps again."""
        if self._lookups_away:
            self._lookups_away = False
            self._log.info("history.readable", **self._lookup_faults.end())
