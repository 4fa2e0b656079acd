"""Watch whether the rungs and due queues give back the messages that were put into them.

Data flow: messages of due queues -> :meth:`Returns.offer` -> the checks on them -> :class:`ReturnWatch`, or a
report on leveret.control to the worker that set the check. Once a second: overdue queues -> the queues that
:class:`Outbox` avoids, metrics, log, readiness.

A worker without the right to bind a queue to the control exchange hears no reports, and so sets no checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import orjson

from consumer.core.errors import BrokerUnavailable
from consumer.core.returns.check_headers import (
    check_headers,
    check_number,
    check_of,
    check_text,
    is_only_check,
)
from consumer.core.returns.watch import Path
from consumer.flow.base.cancelled import is_asked_to_end
from consumer.flow.base.checked_publisher import CheckedPublisher
from consumer.flow.base.context import Context
from consumer.ports import Incoming, Publication, Routes, Source, Ticket

TICK_S = 1.0
TICK_MAX_S = 5.0  #: most of the time between two ticks that counts, as the process may have been stopped
REPORTS_MAX = 1_000  #: reports to other workers that wait for the broker
CHECKED_SOURCES = frozenset({Source.DUE, Source.STRAY})  #: only Leveret publishes to these queues
REPORT_START = b'{"kind":"returned",'  #: of each report; other control messages are for other parts
LOOK_S = 5.0  #: longest look at the rungs
REPORT_S = 2.0  #: longest wait for the confirm of a report

_V = TypeVar("_V", int, float)


class Returns:
    """The part of one worker that watches what comes back."""

    def __init__(self, context: Context, checked: CheckedPublisher, routes: Routes) -> None:
        """Bind to the flow.

        Args:
            context: The ports; its ``avoided`` is set here.
            checked: The publisher of the flow, which sets the checks.
            routes: Counts the messages of a former process on the rungs.
        """
        self._context = context
        self._checked = checked
        self._watch = checked.watch
        self._routes = routes
        self._reports: list[str] = []  #: checks of other workers that came back here
        self._to_ack: list[Ticket] = []
        self._overdue: Mapping[str, int] = {}
        self._has_looked = False
        self._is_listening = False
        self._context.observe.returns.begin(self._queues())

    # what the broker edge reports

    def listening(self) -> None:
        """Begin to set checks: from now on this worker hears the reports of all others."""
        self._is_listening = True
        self._watch.start()

    def offer(self, source: Source, incoming: Incoming) -> bool:
        """Note the check on a message, if it carries one; return whether the message is only a check."""
        if source not in CHECKED_SOURCES:
            return False
        text = check_of(incoming.message.headers)
        if text is not None:
            self._note(text)
        if not is_only_check(incoming.message.headers):
            return False
        self._to_ack.append(incoming.ticket)
        return True

    def _note(self, text: str) -> None:
        number = check_number(text, self._checked.worker)
        if number is not None:
            self._watch.returned(number)
        elif len(self._reports) < REPORTS_MAX:
            self._reports.append(text)

    def heard(self, body: bytes) -> bool:
        """Take a control message, if it is a report of another worker; return whether it is one.

        Any program with the right to publish there may send anything; what is not understood is ignored.
        """
        if not body.startswith(REPORT_START):
            return False
        try:
            checks = orjson.loads(body).get("checks")
        except ValueError:
            return True
        for text in checks if isinstance(checks, list) else ():
            number = check_number(text, self._checked.worker) if isinstance(text, str) else None
            if number is not None:
                self._watch.returned(number)
        return True

    def notes(self) -> Sequence[str]:
        """Return the fault for ``/readyz``, without names, as everybody may ask."""
        count = len(self._overdue)
        text = (
            f"queues that do not give back their messages in time: {count}; see `leveret status` or the log"
        )
        return [text] if count else []

    # the routine

    async def run(self, sees: Callable[[], bool]) -> None:
        """Judge once a second, until cancelled.

        Args:
            sees: Returns whether messages can come back to this worker now, and its publishes arrive.
        """
        monotonic = self._context.clock.monotonic
        async with asyncio.TaskGroup() as publishes:
            last_s = monotonic()
            while True:
                await asyncio.sleep(TICK_S)
                passed_s, last_s = monotonic() - last_s, monotonic()
                try:
                    await self.settle()
                    is_seeing = self._is_listening and sees()
                    seen_s = min(passed_s, TICK_MAX_S) if is_seeing else 0.0
                    self._watch.advance(seen_s, passed_s - seen_s)
                    if is_seeing:
                        for path in await self._wanted():
                            publishes.create_task(self._publish_check(path), name="check")
                        self._judge()
                except asyncio.CancelledError:
                    if is_asked_to_end():
                        raise
                except Exception as error:  # a bug; deliveries matter more
                    self._context.observe.task_failed("returns", error)

    async def settle(self) -> None:
        """Ack the checks in hand, and report those of other workers."""
        tickets, self._to_ack = self._to_ack, []
        for ticket in tickets:
            await ticket.ack()
        if self._reports and self._is_listening:
            await self._report()

    async def _report(self) -> None:
        """Publish the reports; without a broker they wait."""
        reports = self._reports
        report = Publication(
            exchange=self._context.names.control,
            routing_key="",
            body=orjson.dumps({"kind": "returned", "checks": reports}),
            mandatory=False,
        )
        self._reports = []
        try:
            async with asyncio.timeout(REPORT_S):
                await self._checked.publish(report)
        except (BrokerUnavailable, TimeoutError, asyncio.CancelledError):
            self._reports = [*reports, *self._reports][:REPORTS_MAX]
            if is_asked_to_end():
                raise

    async def _wanted(self) -> Sequence[Path]:
        """Return the paths that need a check; at the start also those that a former process used."""
        if self._has_looked:
            return self._watch.wanted()
        context = self._context
        by_queue = {context.names.rung(rung_s): rung_s for rung_s in context.ladder.rungs_s}
        try:
            async with asyncio.timeout(LOOK_S):
                ready = await self._routes.ready(by_queue)
        except (BrokerUnavailable, TimeoutError):
            return self._watch.wanted()
        self._has_looked = True
        used = [rung_s for queue, rung_s in by_queue.items() if ready[queue]]
        return [Path(rung_s, queue) for rung_s in used for queue in self._due_queues()]

    async def _publish_check(self, path: Path) -> None:
        """Publish a message of only a check; a failed one is repeated by a later tick."""
        names, number = self._context.names, self._watch.mark(path)
        check = Publication(
            exchange=names.wait if path.rung_s else names.due,
            routing_key=names.wait_key(path.rung_s, path.queue),
            body=b"",
            headers=check_headers(check_text(self._checked.worker, number)),
        )
        try:
            await self._checked.publish_check(check, number)
        except BrokerUnavailable:
            return
        except Exception as error:  # a bug; deliveries matter more
            self._context.observe.task_failed("check", error)

    def _judge(self) -> None:
        """Compare, avoid, and report each change."""
        overdue = self._watch.overdue()
        self._context.avoided.set(overdue.avoided, frozenset(overdue.queues))
        by_queue = self._named(overdue.rungs, overdue.queues)
        late = self._watch.late()
        self._context.observe.returns.late(self._named(late.rungs, late.queues))
        if by_queue != self._overdue:
            self._context.observe.returns.overdue(by_queue, self._overdue)
            self._overdue = by_queue

    def _named(self, rungs: Mapping[float, _V], queues: Mapping[str, _V]) -> Mapping[str, _V]:
        return {**{self._context.names.rung(rung_s): value for rung_s, value in rungs.items()}, **queues}

    def _due_queues(self) -> Sequence[str]:
        return [self._context.names.due_queue(index) for index in range(self._context.due_queues)]

    def _queues(self) -> Sequence[str]:
        rungs = (self._context.names.rung(rung_s) for rung_s in self._context.ladder.rungs_s)
        return [*rungs, *self._due_queues()]
