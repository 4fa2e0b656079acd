"""The end of a drain, where the broker takes nothing any more."""

from __future__ import annotations

from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.flow.drain import Drain
from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.operator_events import OperatorEvents
from tests.support.fakes import MemoryArchive
from tests.support.worker import Worker


async def test_a_stop_under_an_alarm_ends(worker: Worker) -> None:
    """Fault 63: a blocked broker confirms nothing; the remaining notices are not worth a SIGKILL."""
    ops = OperatorEvents(worker.context, worker.subscriptions)
    ops.note(Note(type=OperatorEventType.BREAKER_OPENED, tenant="acme", subject="sub_1"))
    steps: list[str] = []

    async def stop_consuming() -> None:
        steps.append("stopped")

    async def flush() -> None:
        steps.append("flushed")

    worker.publisher.hang()
    began = worker.clock.monotonic()
    await Drain(
        router=worker.router,
        overflow=DeadLetters(worker.context, MemoryArchive()),
        ops=ops,
        agreement=Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0"),
        observe=worker.observe,
        stop_consuming=stop_consuming,
        flush=flush,
        grace_s=5.0,
    ).run()

    assert steps == ["stopped", "flushed"]
    assert worker.clock.monotonic() - began < 10
    assert [event for _, event, _ in worker.log.lines][-2:] == ["drain.untold", "drain.ended"]
