"""Count every target from the moment it is owed until it ends, so that a lost target shows.

A target is one delivery: an event for one subscription. A worker has it *in flight* from the time when it
matched the event, or read the delivery message, until the target ends or is stored.

    event, replay ─> owed ─> in flight ─> delivered | parked | cancelled
                              │    ^
                       stored v    │ taken
                             waiting, in a delivery message

The books of one worker are a row of numbers in memory that outlives the process. Each step adds to one number
only, so a process that is killed leaves no half of a step; the targets that it had in flight are the
difference. Their messages come back to a worker, so at the next start they are *interrupted*.

A message whose ack got lost is taken twice. So the books may know of too few waiting targets, and of too many
only if a delivery message was lost.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

Cells: TypeAlias = "list[int] | memoryview"
"""The numbers: whole, signed, 64 bits."""


class Origin(IntEnum):
    """The place that a target in flight came from, and returns to if its message is given back."""

    OWED = 0  #: a producer's event, or a replayed entry: read again, it is owed again
    WAITING = 1  #: a delivery message


class Step(IntEnum):
    """A step of a target."""

    OPENED = 0  #: it is in flight
    DELIVERED = 1
    PARKED = 2
    CANCELLED = 3
    STORED = 4  #: the broker has confirmed a delivery message with it
    RETURNED = 5  #: its message comes again: the channel was lost, or the work failed
    INTERRUPTED = 6  #: its message comes again: the worker was killed
    LOST = 7  #: its message was acked, and none of the other steps was made: a bug


_STEPS: Final = len(Step)
_STORED_MESSAGES: Final = len(Origin) * _STEPS
_TAKEN_MESSAGES: Final = _STORED_MESSAGES + 1
CELLS: Final = _TAKEN_MESSAGES + 1  #: how many numbers the books of one worker have


class Balance(NamedTuple):
    """The state of the books at one moment: ``owed - owed_again = ended + waiting + in_flight + lost``."""

    owed: int
    owed_again: int  #: of *owed*: their events and replays came back, and are owed once more when read
    delivered: int
    parked: int
    cancelled: int
    waiting: int  #: negative where this worker takes more than it stores
    waiting_again: int  #: how often a delivery message came back with a target in flight
    in_flight: int
    lost: int
    waiting_messages: int  #: delivery messages that were confirmed and not yet acked; may be negative


class Books:
    """The books of one worker."""

    def __init__(self, cells: Cells | None = None) -> None:
        """Go on with *cells*; None begins at zero, in memory that ends with the process."""
        self._cells: Cells = [0] * CELLS if cells is None else cells

    def add(self, origin: Origin, step: Step, count: int) -> None:
        """Count a step of *count* targets that came from *origin*."""
        self._cells[origin * _STEPS + step] += count

    def message_stored(self) -> None:
        """Count a delivery message that the broker has confirmed."""
        self._cells[_STORED_MESSAGES] += 1

    def message_taken(self, count: int = 1) -> None:
        """Count *count* delivery messages that are acked."""
        self._cells[_TAKEN_MESSAGES] += count

    def cancelled_waiting(self, targets: int, messages: int) -> None:
        """Count targets that an operator cancelled while they waited, and their messages."""
        self.add(Origin.WAITING, Step.OPENED, targets)
        self.add(Origin.WAITING, Step.CANCELLED, targets)
        self.message_taken(messages)

    def interrupt(self) -> tuple[int, int]:
        """Note that the process with the targets in flight ended; return how many were owed, and waiting."""
        owed, waiting = self._in_flight(Origin.OWED), self._in_flight(Origin.WAITING)
        self.add(Origin.OWED, Step.INTERRUPTED, owed)
        self.add(Origin.WAITING, Step.INTERRUPTED, waiting)
        return owed, waiting

    def fault(self) -> str | None:
        """Return why these numbers cannot be the books of a worker; None where they can."""
        if any(number < 0 for number in self._cells):
            return "a count is negative"
        if any(self._in_flight(origin) < 0 for origin in Origin):
            return "more targets ended than were ever in flight"
        return None

    def balance(self) -> Balance:
        """Return the state of the books."""
        return Balance(
            owed=self._of(Origin.OWED, Step.OPENED),
            owed_again=self._came_back(Origin.OWED),
            delivered=self._both(Step.DELIVERED),
            parked=self._both(Step.PARKED),
            cancelled=self._both(Step.CANCELLED),
            waiting=self._both(Step.STORED)
            - self._of(Origin.WAITING, Step.OPENED)
            + self._came_back(Origin.WAITING),
            waiting_again=self._came_back(Origin.WAITING),
            in_flight=sum(map(self._in_flight, Origin)),
            lost=self._both(Step.LOST),
            waiting_messages=self._cells[_STORED_MESSAGES] - self._cells[_TAKEN_MESSAGES],
        )

    def _of(self, origin: Origin, step: Step) -> int:
        return self._cells[origin * _STEPS + step]

    def _both(self, step: Step) -> int:
        return self._of(Origin.OWED, step) + self._of(Origin.WAITING, step)

    def _came_back(self, origin: Origin) -> int:
        return self._of(origin, Step.RETURNED) + self._of(origin, Step.INTERRUPTED)

    def _in_flight(self, origin: Origin) -> int:
        closed = sum(self._of(origin, step) for step in Step if step is not Step.OPENED)
        return self._of(origin, Step.OPENED) - closed
