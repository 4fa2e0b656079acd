"""Define the ports that count and replay parked entries; a part of :mod:`consumer.ports`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from consumer.core.message.jobs import JobRow, LastMade, Origin, ReplayJob
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.records import ParkedCounts


class ParkedIndex(Protocol):
    """The index of parked entries in the store."""

    async def parked_counts(self) -> ParkedCounts:
        """Return how many entries are parked now.

        Raises:
            StoreUnavailable: it cannot be read.
        """


class JobStore(Protocol):
    """The replay jobs in the store. Each method raises ``StoreUnavailable``."""

    async def last_made(self) -> Mapping[Origin, LastMade]:
        """Return when the last job of each origin was made, and whether one is pending."""

    async def add(self, job: ReplayJob) -> None:
        """Store a new job."""

    async def get(self, job: str) -> JobRow | None:
        """Return one job; None if there is none with this id."""

    async def claim(self, worker: str, origins: Collection[Origin]) -> ReplayJob | None:
        """Take the oldest running job of *origins* that no other worker holds, those of operators first."""

    def unreadable(self) -> Mapping[str, str]:
        """Return why the last claim skipped rows, by the ids of their jobs."""

    async def keep(self, job: str, worker: str) -> bool:
        """Hold a job on; False if it is no longer running, or another worker's."""

    async def intend(self, job: str, worker: str, entries: Collection[str]) -> bool:
        """Note entries that are sent next; False if the job is no longer running, or another worker's."""

    async def sent(self, job: str, entries: Mapping[str, float]) -> None:
        """Mark entries that have left the parked queue, each with its parking time (Unix seconds)."""

    async def end_pass(self, job: str, worker: str, refused: Collection[str], detail: str) -> bool:
        """End a job whose every entry was seen; False if it is another worker's, or no longer running."""

    async def explain(self, job: str, detail: str) -> None:
        """Note what a job waits for."""


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """A parked entry in hand. Unless it is sent it goes back."""

    entry: ParkedEntry
    refusal: str | None  #: why it cannot be sent from here; None if it can
    #: Publishes it again, and takes it out of the parked queue after the confirm; raises BrokerUnavailable.
    send: Callable[[], Awaitable[None]]


class ParkedPass(Protocol):
    """Takes the parked entries in hand."""

    def entries(
        self, job: ReplayJob, subscriptions: Mapping[str, str]
    ) -> AsyncGenerator[HeldEntry | None, None]:
        """Yield the entries of a job, oldest first, and None once every entry was seen.

        All of them stay in hand until the generator ends; then those that were not sent go back.

        Args:
            job: Chooses the entries, and their target.
            subscriptions: Tenant of each subscription, by its id.

        Raises:
            BrokerUnavailable: the broker is away, or somebody else has the entries in hand.
        """
