"""The targets of one message that are in flight, and their entries in the books.

Data flow: job -> :meth:`OpenTargets.open` -> one :meth:`OpenTargets.close` for each target -> the ack, or the
message is given back.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.core.books import Books, Origin, Step


class OpenTargets:
    """The targets of one message, each of which ends in one way.

    Attributes:
        count: Targets in flight.
        is_lost: Returns whether the broker gives the message out again, so that no publish for it is tried
            anew: the worker that gets the message publishes.
    """

    __slots__ = ("_books", "_origin", "_took", "count", "is_lost")

    def __init__(self, books: Books, is_lost: Callable[[], bool]) -> None:
        """Begin without a target, for a message of a producer."""
        self.count = 0
        self.is_lost = is_lost
        self._books = books
        self._origin = Origin.OWED
        self._took = False  #: a delivery message was taken off those that wait

    def read(self, origin: Origin) -> None:
        """Set where the targets come from; called before the first :meth:`open`."""
        self._origin = origin

    def open(self, count: int) -> None:
        """Count *count* targets that are in flight from now on; 0 makes no entry."""
        if count == 0:  # the message may be held, and move on unread later
            return
        self.count += count
        self._took = self._took or self._origin is Origin.WAITING
        self._books.add(self._origin, Step.OPENED, count)

    def close(self, step: Step, count: int = 1) -> None:
        """Count *count* targets that made *step*, each once its effect is certain."""
        self.count -= count
        self._books.add(self._origin, step, count)
        if step is Step.STORED:
            self._books.message_stored()

    def acked(self) -> None:
        """Count a message that is acked; targets that are still in flight are lost by it."""
        if self.count:
            self.close(Step.LOST, self.count)
        if self._took:
            self._took = False
            self._books.message_taken()

    def give_back(self) -> None:
        """Count the targets in flight of a message that comes again; none are after :meth:`acked`."""
        if self.count:
            self.close(Step.RETURNED, self.count)
