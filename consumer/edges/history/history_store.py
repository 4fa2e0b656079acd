"""Define the protocol of the two places that keep rows: a SQLite file, and PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import Query, StoredStep
from consumer.core.history.sums import Part, Sum
from consumer.core.history.trace import EventKey


class HistoryReader(Protocol):
    """Answers queries. A history that does not exist yet has no rows."""

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Return the rows of *query* in ascending order of ``seq``.

        Raises:
            StoreUnavailable: the history cannot be read.
        """

    async def close(self) -> None:
        """Close every connection."""


class SumReader(HistoryReader, Protocol):
    """Sums up many rows without reading each of them."""

    async def numbers(self, since: float) -> range:
        """Return the numbers of the rows since a time, in Unix seconds, and perhaps of older ones.

        Raises:
            StoreUnavailable: the history cannot be read.
        """

    async def sums(self, part: Part) -> Iterator[Sum]:
        """Return the sums of some rows, in any order; each is made when it is asked for.

        Raises:
            StoreUnavailable: the history cannot be read.
        """


class SettledReader(Protocol):
    """Finds events that were settled."""

    async def settled(self, keys: Sequence[EventKey], since: float, until: float) -> Collection[EventKey]:
        """Return those of *keys* with a ``settled`` row from *since* to *until*, Unix seconds.

        A history that does not exist yet has no rows. Without keys it is only opened.

        Raises:
            StoreUnavailable: the history cannot be read.
            ValueError: it refuses the keys.
        """

    async def close(self) -> None:
        """Close every connection."""


class Limits(NamedTuple):
    """The age and the number of rows that the history keeps at most."""

    max_age_s: float
    max_rows: int


class HistoryTarget(Protocol):
    """Takes rows."""

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Write a batch, all or nothing; a batch of this store that was written already is not repeated.

        Args:
            number: Number of the batch, larger than those before; the same when a batch is tried again.
            batch: Its rows; nobody adds to them any more.

        Raises:
            StoreUnavailable: the history cannot be written now; try the same batch again.
            ValueError: the store refuses these rows whenever they are written.
        """

    async def trim(self, limits: Limits, now: float) -> bool:
        """Delete a bounded number of the oldest rows beyond *limits*; return whether more may be left.

        Args:
            limits: The age and the number of rows to keep.
            now: Unix seconds.

        Raises:
            StoreUnavailable: the history cannot be written now.
        """

    async def close(self) -> None:
        """Close every connection."""


class HistoryStore(HistoryReader, HistoryTarget, Protocol):
    """Takes rows and answers queries."""
