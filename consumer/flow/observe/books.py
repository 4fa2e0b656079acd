"""Show the books of a worker, which outlive the process: targets owed, ended, waiting, in flight."""

from __future__ import annotations

from typing import Any

from consumer.core.books import Books
from metrics.series import Series


class BooksReporter:
    """Brings the series of the books up to date before each scrape, all from one moment."""

    def __init__(self, series: Series, log: Any) -> None:
        self._series = series
        self._log = log
        ended, interrupted = series.targets_ended, series.targets_interrupted
        self._owed = series.tally(series.targets_owed)
        self._ended = {v: series.tally(ended.labels(v)) for v in ("delivered", "parked", "cancelled")}
        self._interrupted = {s: series.tally(interrupted.labels(s)) for s in ("lane", "waiting")}

    def follow(self, books: Books) -> None:
        """Show *books* from now on."""
        self._series.before_scrape(lambda: self._show(books))

    def opened(self, path: str, interrupted: tuple[int, int]) -> None:
        """Report the file, and the targets that its last process had in flight: of a lane, waiting."""
        lane, waiting = interrupted
        self._log.info("books.opened", path=path, interrupted_lane=lane, interrupted_waiting=waiting)

    def put_aside(self, path: str, detail: str) -> None:
        """Report a file that is not the books of a worker; its numbers are not counted any more."""
        self._log.warning("books.put_aside", path=path, detail=detail)

    def unkept(self, folder: str, error: OSError) -> None:
        """Report that the books end with the process, as their file cannot be written."""
        self._log.warning("books.unkept", folder=folder, detail=str(error))

    def _show(self, books: Books) -> None:
        series, balance = self._series, books.balance()
        self._owed.reach(balance.owed)
        self._ended["delivered"].reach(balance.delivered)
        self._ended["parked"].reach(balance.parked)
        self._ended["cancelled"].reach(balance.cancelled)
        self._interrupted["lane"].reach(balance.owed_again)
        self._interrupted["waiting"].reach(balance.waiting_again)
        series.targets_waiting.set(balance.waiting)
        series.targets_in_flight.set(balance.in_flight)
        series.waiting_messages.set(balance.waiting_messages)
