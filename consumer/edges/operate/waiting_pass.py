"""Run one pass over the rungs, and collect the rows of the deliveries that it met.

Data flow: pass of :mod:`consumer.edges.operate.waiting` -> rows by delivery id, lines of what was left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from aio_pika.abc import AbstractConnection

from consumer.core.message.waiting import Wanted, as_dict
from consumer.edges.operate.waiting import Unread, Waiting, WaitQueues
from topology.plan import TopologySpec

WaitingPass = Callable[[AbstractConnection, WaitQueues, Wanted], AsyncGenerator[Waiting | Unread, None]]


@dataclass(slots=True)
class Met:
    """The deliveries that a pass has met so far."""

    limit: int  #: the pass ends after so many
    unread: list[str] = field(default_factory=list)  #: messages that were not looked at, and why
    _rows: dict[object, Mapping[str, object]] = field(default_factory=dict)  # by id: one may be met twice

    @property
    def rows(self) -> Sequence[Mapping[str, object]]:
        """The deliveries with stable field names, in the order of the pass."""
        return list(self._rows.values())[: self.limit]

    async def run(
        self, connection: AbstractConnection, spec: TopologySpec, step: WaitingPass, wanted: Wanted
    ) -> None:
        """Run *step*; the rows are known even if it fails midway.

        Raises:
            BrokerUnavailable: the broker is away or a rung does not exist.
            OSError: the disk refused the archive.
        """
        async with aclosing(step(connection, WaitQueues(spec.names, spec.ladder), wanted)) as done:
            async for one in done:
                if isinstance(one, Unread):
                    self.unread.append(f"{one.queue}: {one.count} messages were not looked at: {one.why}")
                    continue
                shown = [as_dict(one.message, target) for target in one.message.targets]
                self._rows.update((row["delivery_id"], row) for row in shown)
                if len(self._rows) >= self.limit:
                    return
