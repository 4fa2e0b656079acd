"""The export of spans: beside the deliveries, bounded, and each span is exported or counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from consumer.edges.tracing.collector import Answer, Fate
from consumer.edges.tracing.exporter import BATCH_BYTES, FINISH_S, LONGEST_PAUSE_S, SpanExporter
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog, run_virtually

TAKEN, REFUSED = Answer(Fate.TAKEN), Answer(Fate.REFUSED, detail="HTTP 401")
AWAY = Answer(Fate.LATER, detail="HTTP 503")
ROOM = 100 * 1024
RESULTS = ("exported", "full", "refused", "stopped")


class MemoryCollector:
    """Takes batches in memory; a test sets its answers, or lets it hang."""

    def __init__(self) -> None:
        self.batches: list[int] = []  #: spans of each one that was taken
        self.at: list[float] = []  #: loop time of each post, seconds
        self.answers: list[Answer | Exception] = []  #: to the next posts; none left: it takes them
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def post(self, body: bytes) -> Answer:
        """Answer as the test has set."""
        self.at.append(asyncio.get_running_loop().time())
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else TAKEN
        if isinstance(answer, Exception):
            raise answer
        if answer.fate is Fate.TAKEN:
            self.batches.append(body.count(b"\n") + 1)
        return answer

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class Desk:
    """An exporter with its collector, metrics and log."""

    def __init__(self, *answers: Answer | Exception, bytes_max: int = ROOM) -> None:
        self.collector = MemoryCollector()
        self.collector.answers.extend(answers)
        self.series = Series(CollectorRegistry())
        self.log = RecordingLog()
        observer = Observer(self.series, self.log)
        self.exporter = SpanExporter(self.collector, b"\n".join, bytes_max, observer)

    def add(self, count: int, size: int = 8) -> None:
        """Record so many spans of *size* bytes."""
        for _ in range(count):
            self.exporter.add(b"s" * size)

    def counts(self) -> Mapping[str, int]:
        """Return the counts above 0, by result."""
        found = {
            result: self.series.registry.get_sample_value("leveret_spans_total", {"result": result}) or 0
            for result in RESULTS
        }
        return {result: int(count) for result, count in found.items() if count}

    async def run(self, for_s: float) -> None:
        """Let it run for so long."""
        try:
            async with asyncio.timeout(for_s):
                await self.exporter.run()
        except TimeoutError:
            pass


def test_spans_are_gathered_into_batches() -> None:
    """Of a bounded size; the last one waits for further spans."""

    async def main() -> None:
        desk = Desk(bytes_max=4 * BATCH_BYTES)
        desk.add(10)
        await desk.run(5.0)
        desk.add(2_500, size=1024)
        await desk.run(5.0)

        assert desk.collector.batches == [10, 1_024, 1_024, 452]
        assert desk.counts() == {"exported": 2_510}

    run_virtually(main)


def test_a_dead_collector_fills_the_room_and_no_more() -> None:
    """Further spans are dropped and counted, the pauses grow up to a bound, and the log has one line."""

    async def main() -> None:
        desk = Desk(*[AWAY] * 1_000)
        desk.add(20_000)
        await desk.run(300.0)

        kept = ROOM // 8
        assert desk.counts() == {"full": 20_000 - kept}
        pauses = [
            after - before for before, after in zip(desk.collector.at, desk.collector.at[1:], strict=False)
        ]
        assert pauses == sorted(pauses)
        assert LONGEST_PAUSE_S <= pauses[-1] <= LONGEST_PAUSE_S + 1
        assert desk.log.events("tracing.failed") == [{"detail": "HTTP 503"}]

        desk.collector.answers.clear()
        await desk.run(60.0)
        assert desk.counts() == {"full": 20_000 - kept, "exported": kept}
        assert len(desk.log.events("tracing.recovered")) == 1

    run_virtually(main)


def test_a_batch_that_waits_is_exported_though_no_span_follows() -> None:
    """The collector may ask for a time."""

    async def main() -> None:
        desk = Desk(Answer(Fate.LATER, wait_s=7.0, detail="HTTP 429"))
        desk.add(3)
        await desk.run(20.0)

        assert desk.counts() == {"exported": 3}
        assert desk.collector.at[1] - desk.collector.at[0] >= 7.0

    run_virtually(main)


@pytest.mark.parametrize("answer", [REFUSED, RuntimeError("a bug")])
def test_a_refused_batch_is_dropped(answer: Answer | Exception) -> None:
    """It would be refused again; the next one is sent."""

    async def main() -> None:
        desk = Desk(answer)
        desk.add(3)
        await desk.run(2.0)
        desk.add(2)
        await desk.run(5.0)

        assert desk.counts() == {"refused": 3, "exported": 2}

    run_virtually(main)


def test_spans_that_the_collector_rejects_are_counted() -> None:
    """It takes the others; its words are in the log."""

    async def main() -> None:
        desk = Desk(Answer(Fate.TAKEN, rejected=2, detail="too old"))
        desk.add(5)
        await desk.run(5.0)

        assert desk.counts() == {"exported": 3, "refused": 2}
        assert desk.log.events("tracing.failed") == [{"detail": "2 spans rejected: too old"}]

    run_virtually(main)


@pytest.mark.parametrize(("hangs", "lasts_s"), [(True, FINISH_S), (False, 0.0)])
def test_the_end_is_bounded(hangs: bool, lasts_s: float) -> None:
    """A collector that hangs or fails holds up no worker; the spans that are left are counted."""

    async def main() -> None:
        desk = Desk(AWAY)
        desk.add(4)
        if hangs:
            desk.collector.gate.clear()
        began = asyncio.get_running_loop().time()
        await desk.exporter.finish()

        assert asyncio.get_running_loop().time() - began == lasts_s
        assert desk.counts() == {"stopped": 4}
        assert desk.collector.closed

    run_virtually(main)


def test_the_end_exports_what_is_left() -> None:
    """In several batches, if there is much."""

    async def main() -> None:
        desk = Desk(bytes_max=4 * BATCH_BYTES)
        desk.add(1_500, size=1024)
        await desk.exporter.finish()

        assert desk.collector.batches == [1_024, 476]
        assert desk.counts() == {"exported": 1_500}

    run_virtually(main)


ANSWERS = st.sampled_from([TAKEN, REFUSED, AWAY, Answer(Fate.TAKEN, rejected=1), RuntimeError("a bug")])


@settings(max_examples=60)
@given(st.lists(ANSWERS, max_size=8), st.lists(st.integers(0, 9_000), max_size=6))
def test_each_span_is_exported_or_counted_once(answers: list[Answer | Exception], adds: list[int]) -> None:
    """Whatever the collector answers, and however many spans come."""

    async def main() -> None:
        desk = Desk(*answers)
        for count in adds:
            desk.add(count)
            await desk.run(0.9)
        await desk.exporter.finish()

        assert sum(desk.counts().values()) == sum(adds)

    run_virtually(main)
