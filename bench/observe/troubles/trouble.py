"""A trouble: its begin, the culprit that the overview has to name, and its end by runbook and owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bench.observe.troubles.customers import Customer
from bench.observe.troubles.stage import Stage

Act: TypeAlias = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Take:
    """Run the commands of one line of the section.

    Attributes:
        label: ``block 1``, ``2.``, or the code in the first cell of a row.
        start: Only those commands of the line that begin so.
        may_fail: Whether exit code 1 is right while the trouble lasts.
    """

    label: str
    start: str = ""
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """Let the owner of the cause repair it."""


REPAIR = Repair()
Step: TypeAlias = Take | Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One scripted trouble.

    Attributes:
        name: For ``--case``.
        customers: Those whom it hits; none: all ordinary ones. Their endpoints must have taken all of their
            events at the end.
        culprit: Returns the name that the overview has to show.
        alert: The alert that has to reach a receiver.
        label: Its label with the culprit.
        cause: The cause that the overview's cell has to name; empty: its panel names none.
        alert_cause: Whether the alert's description has to name that cause too.
        begin: Starts the trouble.
        repair: Ends the outside cause; it may run twice, and also before the trouble began.
        steps: Through the section of the runbook.
        found: Text that the commands before the repair, or all if there is none, must print; empty: the
            culprit.
        prepare: Makes the surroundings ready, well before the begin.
        own_broker: Whether it changes the whole node, which no test may share.
    """

    name: str
    customers: Sequence[Customer] = ()
    culprit: Callable[[Stage], str]
    alert: str
    label: str
    cause: str = ""
    alert_cause: bool = False
    begin: Act
    repair: Act
    steps: Sequence[Step]
    found: str = ""
    prepare: Act | None = None
    own_broker: bool = False
