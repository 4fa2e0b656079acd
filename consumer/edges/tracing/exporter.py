"""Keep recorded spans for a moment, and export them in batches, beside the deliveries.

Data flow: :meth:`SpanExporter.add` (in memory, bounded) -> a batch each half second -> Collector.
A batch is tried until the collector takes or refuses it; meanwhile spans gather up to the bound. Each span is
exported or counted as dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from consumer.edges.tracing.collector import Answer, Fate
from consumer.tracing_ports import TracingReports

GATHER_S: Final = 0.5  #: time for which spans are gathered into one batch
BATCH_BYTES: Final = 1024 * 1024  #: of one batch before its compression, about
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
FINISH_S: Final = 3.0  #: longest time at the end of the worker in which spans are still exported


class Poster(Protocol):
    """Posts batches: a :class:`Collector`."""

    async def post(self, body: bytes) -> Answer:
        """Send one batch, and return the answer; raise nothing for a fault of the collector."""

    async def close(self) -> None:
        """Close every connection."""


class SpanExporter:
    """The queue of recorded spans."""

    def __init__(
        self,
        collector: Poster,
        request_of: Callable[[Sequence[bytes]], bytes],
        bytes_max: int,
        reports: TracingReports,
    ) -> None:
        """Bind to a collector.

        Args:
            collector: Takes the batches.
            request_of: Makes the body of an export from spans.
            bytes_max: Bytes of spans that wait, with those that are under way.
            reports: Takes faults and counts.
        """
        self._collector = collector
        self._request_of = request_of
        self._bytes_max = bytes_max
        self._reports = reports
        self._spans: deque[bytes] = deque()
        self._batch: list[bytes] = []  #: under way, or to be tried again
        self._bytes = 0  #: of both
        self._work = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S

    def add(self, span: bytes) -> None:
        """Take *span*; drop and count it if there is no room."""
        if self._bytes + len(span) > self._bytes_max:
            self._reports.spans_dropped("full", 1)
            return
        if not self._spans:
            self._work.set()
        self._spans.append(span)
        self._bytes += len(span)

    async def run(self) -> None:
        """Export batches until cancelled."""
        while True:
            if not self._batch:
                await self._work.wait()
            if self._bytes < BATCH_BYTES:
                await asyncio.sleep(GATHER_S)
            await asyncio.sleep(await self._export())

    async def finish(self) -> None:
        """Export the remaining spans for a bounded time, count the others, and close the connections."""
        try:
            async with asyncio.timeout(FINISH_S):
                while self._bytes and not await self._export():
                    pass
        except TimeoutError:
            pass
        self._batch += self._spans
        self._spans.clear()
        self._drop("stopped")
        await self._collector.close()

    async def _export(self) -> float:
        """Export one batch; return the pause before the next one in seconds, 0 if it is settled."""
        if not self._batch:
            self._take()
        try:
            answer = await self._collector.post(self._request_of(self._batch))
        except Exception as error:  # a bug must not stop deliveries
            self._reports.task_failed("tracing", error)
            answer = Answer(Fate.REFUSED, detail=type(error).__name__)
        if answer.fate is not Fate.LATER:
            self._settle(answer)
            return 0.0
        self._reports.export_failed(answer.detail)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return max(pause_s, min(answer.wait_s, LONGEST_PAUSE_S))

    def _take(self) -> None:
        """Move the oldest spans into the batch."""
        size = 0
        while self._spans and size < BATCH_BYTES:
            span = self._spans.popleft()
            size += len(span)
            self._batch.append(span)
        if not self._spans:
            self._work.clear()

    def _settle(self, answer: Answer) -> None:
        """Forget the batch, and count its spans."""
        self._pause_s = FIRST_PAUSE_S
        if answer.fate is Fate.REFUSED:
            self._reports.export_failed(answer.detail)
            self._drop("refused")
            return
        rejected = min(answer.rejected, len(self._batch))
        self._reports.spans_exported(len(self._batch) - rejected)
        if rejected:
            self._reports.spans_dropped("refused", rejected)
            self._reports.export_failed(f"{rejected} spans rejected: {answer.detail}")
        else:
            self._reports.export_worked()
        self._forget()

    def _drop(self, reason: str) -> None:
        """Count the batch as dropped and forget it."""
        if self._batch:
            self._reports.spans_dropped(reason, len(self._batch))
        self._forget()

    def _forget(self) -> None:
        self._bytes -= sum(map(len, self._batch))
        self._batch.clear()
