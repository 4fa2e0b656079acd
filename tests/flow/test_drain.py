"""The end of a drain, where the broker takes nothing any more."""

from __future__ import annotations

from consumer.core.ops import Note, OpsType
from consumer.flow.agreement import Agreement
from consumer.flow.drain import Drain
from consumer.flow.ops import Ops
from consumer.flow.overflow import Overflow
from tests.fakes import MemoryArchive
from tests.flow.worker import Worker


async def test_a_stop_under_an_alarm_ends(worker: Worker) -> None:
    """FAULTS 63: a blocked broker confirms nothing; what would be told is not worth a SIGKILL."""
    ops = Ops(worker.world, worker.registry)
    ops.note(Note(type=OpsType.BREAKER_OPENED, tenant="acme", subject="sub_1"))
    steps: list[str] = []

    async def stop_consuming() -> None:
        steps.append("stopped")

    async def flush() -> None:
        steps.append("flushed")

    worker.publisher.hang()
    began = worker.clock.monotonic()
    await Drain(
        deliverer=worker.deliverer,
        overflow=Overflow(worker.world, MemoryArchive()),
        ops=ops,
        agreement=Agreement(worker.world, worker.registry, worker.endpoints, "w0"),
        observe=worker.observe,
        stop_consuming=stop_consuming,
        flush=flush,
        grace_s=5.0,
    ).run()

    assert steps == ["stopped", "flushed"]
    assert worker.clock.monotonic() - began < 10
    assert [event for _, event, _ in worker.log.lines][-2:] == ["drain.untold", "drain.ended"]
