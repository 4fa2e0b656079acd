"""One message in hand, and how the flow reports on it.

Data flow: Intake.offer -> Job -> flow.deliver works on it -> ``recost``, ``started``, ``hold`` -> Intake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from consumer.core.books import Books
from consumer.flow.base.open_targets import OpenTargets
from consumer.ports import Incoming, Source

#: Sources whose messages only Leveret publishes: deliveries, and moved events, which are wrapped. Messages of
#: all other sources are as their producers published them.
OWN_SOURCES = frozenset({Source.DUE, Source.STRAY, Source.REPLAY})


class Keeper(Protocol):
    """The part of the intake that a job reports to.

    Attributes:
        books: Of this worker.
    """

    books: Books

    def recost(self, job: Job, deliveries: int) -> None:
        """Charge a started job for so many deliveries."""

    def started(self, job: Job, *, takes_slot: bool) -> None:
        """Free the job's place at the start."""

    def hold(self, job: Job, delay_s: float) -> bool:
        """Start *job* anew after *delay_s*; return False where too many jobs are held."""


@dataclass(slots=True, eq=False)
class Job:
    """One message in hand."""

    source: Source
    incoming: Incoming
    tenant: str
    keeper: Keeper
    at: float = 0.0  #: monotonic seconds since which it waits to be started
    cost: int = 1  #: deliveries that it is charged for
    reserved: bool = False  #: it was held here until the time of a reservation
    held_s: float = 0.0  #: for how long it was held here, by the monotonic clock
    _targets: OpenTargets | None = None  #: None until it is started: thousands may wait in hand

    @property
    def targets(self) -> OpenTargets:
        """Its targets in flight."""
        if self._targets is None:
            alive = self.incoming.ticket.alive  # self.lost here would make a cycle that keeps the body
            self._targets = OpenTargets(self.keeper.books, lambda: not alive())
        return self._targets

    def lost(self) -> bool:
        """Return whether the broker gives the message out again; then that copy owes the deliveries."""
        return not self.incoming.ticket.alive()

    async def ack(self) -> None:
        """Settle the message, once each of its targets ended or is stored; see :meth:`Ticket.ack`."""
        if not (self.targets.count and self.lost()):  # of a lost one those in flight are given back
            self.targets.acked()
        await self.incoming.ticket.ack()

    async def requeue(self) -> None:
        """Give the message back to the broker, with its targets in flight; see :meth:`Ticket.requeue`."""
        self.targets.give_back()
        await self.incoming.ticket.requeue()

    async def reject(self) -> None:
        """Give the message back after a failure of ours, likewise; see :meth:`Ticket.reject`."""
        self.targets.give_back()
        await self.incoming.ticket.reject()

    def recost(self, deliveries: int) -> None:
        """Report how many deliveries the message turned out to be."""
        if deliveries != self.cost:
            self.keeper.recost(self, deliveries)

    def started(self, *, takes_slot: bool) -> None:
        """Report that the job reached its requests, or that it makes none; another job may start then.

        Args:
            takes_slot: It takes one of the worker's slots at once; False: all its requests wait first.
        """
        self.keeper.started(self, takes_slot=takes_slot)

    def hold(self, delay_s: float, *, reserved: bool | None = None) -> bool:
        """Keep the message in the worker and start the job anew after *delay_s*.

        Args:
            delay_s: Seconds, more than 0.
            reserved: The delay ends at the time of a reservation; None: as it was.

        Returns:
            False where the worker holds too many jobs: then nothing has changed.
        """
        if not self.keeper.hold(self, delay_s):
            return False
        self.reserved = self.reserved if reserved is None else reserved
        self.held_s += delay_s
        return True

    def charge(self, deliveries: int) -> None:
        """Set the cost; called by the scheduler."""
        self.cost = deliveries

    def wait_from(self, now: float) -> None:
        """Wait to be started, from *now* on (monotonic seconds)."""
        self.at = now
