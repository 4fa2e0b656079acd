"""Play the demo: publish, look, draw; and at the end of a bounded play balance the account.

Data flow: Stage -> publish + Watch.look -> live picture or lines -> final_book -> Outcome.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from consumer.edges.operate.paced import Schedule
from demo.account import Book, Pair
from demo.evidence import Watch, daemon_counts, final_book
from demo.screen import Screen
from demo.stage import Stage
from demo.traffic import Sent, publish
from demo.view import Snapshot

LOOK_S: Final = 0.25  #: seconds between two looks
RATE_OVER_S: Final = 5.0  #: seconds over which rates are measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Duration and rate of a play."""

    seconds: float | None  #: seconds of events; None plays until Ctrl-C and checks nothing
    rate_per_s: float  #: events a second
    patience_s: float  #: seconds from the last event until all deliveries must be accounted for


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a play."""

    now: Snapshot
    stopped: bool  #: whether somebody ended it early, so that nothing was checked
    unaccounted: Sequence[Pair] = ()
    pairs: int = 0
    faults: Sequence[str] = ()  #: other faults
    note: str = ""


@dataclass(slots=True)
class _Rates:
    """Events and deliveries a second, over the last seconds."""

    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)

    def of(self, at: float, events: int, deliveries: int) -> tuple[float, float]:
        """Add two sums; return their growth per second."""
        self._marks.append((at, events, deliveries))
        while self._marks[0][0] < at - RATE_OVER_S:
            self._marks.popleft()
        began, events_then, deliveries_then = self._marks[0]
        seconds = max(at - began, LOOK_S)
        return (events - events_then) / seconds, (deliveries - deliveries_then) / seconds


class Play:
    """One run of the demo."""

    def __init__(self, stage: Stage, bounds: Bounds, screen: Screen) -> None:
        self._stage = stage
        self._bounds = bounds
        self._screen = screen
        self._watch = Watch(stage)
        self._rates = _Rates()
        self._began = time.monotonic()
        self._over_at: float | None = None  #: monotonic seconds of the last confirm
        self._stop = asyncio.Event()

    async def run(self) -> Outcome:
        """Play to the end.

        Raises:
            RuntimeError: a part of the stage ended, or did not answer.
            BrokerUnavailable: the broker refused an event.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        self._began = time.monotonic()
        publishing = asyncio.create_task(self._publish())
        try:
            with self._screen.drawing():
                balanced = await self._watch_until_over(publishing)
        finally:
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
        if balanced is None:
            return Outcome(now=self._snapshot(self._watch.book), stopped=True)
        counts = await asyncio.to_thread(daemon_counts, self._stage)
        return _outcome(balanced, self._snapshot(balanced), counts)

    async def _publish(self) -> None:
        seconds, rate = self._bounds.seconds, self._bounds.rate_per_s
        book = self._watch.book

        def made(sent: Sent) -> None:
            book.made(*sent)
            if seconds is not None:
                self._watch.sent.append(sent)

        count = None if seconds is None else max(1, round(seconds * rate))
        schedule = Schedule(count=count, rate_per_s=rate)
        await publish(self._stage.broker.amqp_url, schedule, made, book.confirmed)
        self._over_at = time.monotonic()

    async def _watch_until_over(self, publishing: asyncio.Task[None]) -> Book | None:
        """Look and draw until all deliveries have ended, or the patience has.

        Returns:
            The book, balanced anew; None if somebody stopped the play.
        """
        while not self._stop.is_set():
            self._look()
            if publishing.done():
                publishing.result()
            if fault := self._stage.ended():
                raise RuntimeError(fault)
            if self._over_at is not None:
                late = time.monotonic() - self._over_at > self._bounds.patience_s
                if late or not self._watch.book.unaccounted():
                    book = await asyncio.to_thread(final_book, self._stage, self._watch)
                    if late or not book.unaccounted():
                        return book
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), LOOK_S)
        return None

    def _look(self) -> None:
        self._watch.look(time.time())
        self._screen.show(self._snapshot(self._watch.book))

    def _snapshot(self, book: Book) -> Snapshot:
        seconds = time.monotonic() - self._began
        rows = tuple(book.rows())
        delivered = sum(row.delivered for row in rows)
        events_per_s, deliveries_per_s = self._rates.of(seconds, book.events.total(), delivered)
        return Snapshot(
            seconds=seconds,
            rows=rows,
            events=book.events,
            events_per_s=events_per_s,
            deliveries_per_s=deliveries_per_s,
            breakers=self._watch.breakers,
            headline=self._watch.news.headline(time.time()),
        )


def _outcome(book: Book, now: Snapshot, counts: Mapping[str, int]) -> Outcome:
    faults = []
    if book.bad_signatures:
        faults.append(f"{book.bad_signatures} requests whose signature does not verify")
    if book.strangers:
        faults.append(f"{book.strangers} requests that belong to no event of ours")
    delivered = sum(row.delivered for row in now.rows)
    counted, gave_up = counts.get("delivered", 0), counts.get("parked", 0)
    note = f"the daemon's own count: {counted:,} delivered, {gave_up:,} parked"
    if counted != delivered + book.repeated:
        note += f"; the endpoints took {delivered + book.repeated:,}"
    return Outcome(
        now=now,
        stopped=False,
        unaccounted=book.unaccounted(),
        pairs=book.pairs(),
        faults=faults,
        note=note,
    )
