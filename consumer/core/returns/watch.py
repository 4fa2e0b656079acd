"""Judge by checks whether each rung gives back its messages, and whether each due queue is consumed.

Data flow: messages put into a rung -> :class:`ReturnWatch` marks one of them every few seconds -> reports of
the marks that came back -> :class:`Overdue`.

A mark is a *check*. A rung returns its messages in order, so a returned check proves the return of every
message that was put in before it by the same worker with the same due queue. Each pair of rung and due queue
is a :class:`Path` with checks of its own, because the process in the broker that moves the messages may hang
on one due queue.

A check may also be late because the due queue is long, or is not consumed. So a worker that misses a check
puts another one straight into the due queue. If that one comes back and the first one is still away, the rung
is at fault. If that one is overdue too, the due queue is.

All times are seconds during which the worker could see messages return; see :meth:`ReturnWatch.advance`. This
module therefore needs no clock. Only the unseen seconds of a check are others.

Source: docs/adr/0040-marked-messages-show-what-does-not-come-back.md; RabbitMQ "Quorum Queues", at-least-once
dead lettering (a worker process per queue has 32 unconfirmed messages at most).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from math import inf
from typing import NamedTuple

EVERY_S = 15.0  #: shortest time between two checks of a path
EVERY_RATIO = 0.25  #: of the rung's TTL: the same for long rungs
LATE_S = 20.0  #: from this lateness on, a check is also put straight into the due queue
OVERDUE_S = 60.0  #: lateness that is a fault
MISSING_S = 900.0  #: a check that later ones overtook counts as missing for so long
UNSEEN_S = 5.0  #: of the time in which nothing was seen, the part that is not counted yet
PROVED_S = 2.0  #: time for reports of several workers to arrive in any order
OPEN_MAX = 8  #: checks of one path that are away at once


class Path(NamedTuple):
    """The way of a message through a rung into a due queue."""

    rung_s: float  #: TTL in seconds; 0: straight into the due queue
    queue: str  #: name of the due queue


@dataclass(slots=True, eq=False)
class Check:
    """One mark that has not come back.

    Attributes:
        messages: Deliveries whose return it proves: those since the check before it, its own included.
        number: Its name, unique in this worker.
        restored: Messages without a check behind them, should this one fail.
        begun_s: When its publish began.
        sent_s: When the broker confirmed it; None before.
        sent_unseen_s: The unseen seconds of this worker until then.
        is_overtaken: A later check of its path came back.
    """

    number: int
    path: Path
    messages: int
    restored: int
    begun_s: float
    sent_s: float | None = None
    sent_unseen_s: float = 0.0
    is_overtaken: bool = False

    def confirmed(self, now_s: float, unseen_s: float) -> None:
        """Note that the broker has it."""
        self.sent_s, self.sent_unseen_s = now_s, unseen_s

    def overtaken(self) -> None:
        """Note that a later check of its path came back."""
        self.is_overtaken = True

    def add(self, messages: int) -> None:
        """Let it prove the return of more messages."""
        self.messages += messages


@dataclass(slots=True, eq=False)
class _Road:
    """All checks of one path.

    Attributes:
        since: Messages after the newest check.
        last_s: When the newest check was made.
        away: Checks that have not come back, oldest first.
        proved_s: When the newest returned check was sent.
        proved_at_s: When it came back.
        doubted_s: When the first check since then began; None if none did.
    """

    since: int = 0
    last_s: float = -inf
    away: deque[Check] = field(default_factory=deque)
    proved_s: float = -inf
    proved_at_s: float = -inf
    doubted_s: float | None = None

    def owe(self, messages: int) -> None:
        """Let the next check prove the return of more messages."""
        self.since += messages

    def hurry(self) -> None:
        """Allow the next check at once."""
        self.last_s = -inf

    def sent(self, check: Check) -> None:
        """Add the newest check."""
        self.since, self.last_s = 0, check.begun_s
        self.doubted_s = check.begun_s if self.doubted_s is None else self.doubted_s
        self.away.append(check)

    def proved(self, check: Check, now_s: float) -> None:
        """Note that a check came back."""
        sent_s = check.begun_s if check.sent_s is None else check.sent_s
        for earlier in takewhile(lambda each: each is not check, self.away):
            earlier.overtaken()
        self.proved_s, self.proved_at_s, self.doubted_s = max(self.proved_s, sent_s), now_s, None


@dataclass(frozen=True, slots=True)
class Overdue:
    """The queues that do not give back, each with the number of messages that are missing at least.

    Attributes:
        rungs: By TTL in seconds.
        queues: By name, due queues that are not consumed in time.
        avoided: TTLs of the rungs that new messages should not take.
    """

    rungs: Mapping[float, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)
    avoided: frozenset[float] = frozenset()


@dataclass(frozen=True, slots=True)
class Late:
    """The queues that may not give back, each with the seconds for which its message has been late.

    Attributes:
        rungs: By TTL in seconds.
        queues: By name, due queues.
    """

    rungs: Mapping[float, float] = field(default_factory=dict)
    queues: Mapping[str, float] = field(default_factory=dict)


class ReturnWatch:
    """The checks of one worker. It is off until :meth:`start`."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._unseen_s = 0.0
        self._is_on = False
        self._numbers = count(1)
        self._roads: dict[Path, _Road] = {}
        self._checks: dict[int, Check] = {}

    def start(self) -> None:
        """Begin to mark messages: from now on this worker receives all reports.

        A report may have been lost before. A check that may have come back meanwhile is therefore replaced.
        While the broker was away its TTL went on, so the unseen seconds count too.
        """
        self._is_on = True
        for road in self._roads.values():
            for check in [each for each in road.away if self._may_be_back(each)]:
                self._forget(check)
                road.owe(check.messages)
                road.hurry()

    def advance(self, seen_s: float, unseen_s: float = 0.0) -> None:
        """Let time pass: seconds in which this worker could see messages return, and those in which not."""
        self._now_s += seen_s
        self._unseen_s += unseen_s

    # publishes

    def put(self, path: Path) -> int | None:
        """Count a message that is about to take *path*; return the number of its check if it carries one."""
        if not self._is_on:
            return None
        road = self._road(path)
        road.owe(1)
        return self._marked(path, road.since - 1) if self._is_time(path, road) else None

    def mark(self, path: Path) -> int:
        """Begin a check as a message of its own, and return its number."""
        return self._marked(path, self._road(path).since)

    def _marked(self, path: Path, restored: int) -> int:
        road, number = self._road(path), next(self._numbers)
        check = Check(number, path, road.since, restored, self._now_s)
        if len(road.away) >= OPEN_MAX:
            merged = road.away[1]
            self._forget(merged)
            road.away[0].add(merged.messages)
        road.sent(check)
        self._checks[number] = check
        return number

    def confirmed(self, number: int) -> None:
        """Note that the broker has a check."""
        if number in self._checks:
            self._checks[number].confirmed(self._now_s, self._unseen_s)

    def failed(self, number: int) -> None:
        """Note that a check was not confirmed: nobody knows whether it comes back."""
        check = self._checks.get(number)
        if check is not None:
            self._forget(check)
            self._roads[check.path].owe(check.restored)

    # returns

    def returned(self, number: int) -> None:
        """Note that a check came back; repeated and unknown numbers change nothing."""
        check = self._checks.get(number)
        if check is None:
            return
        self._roads[check.path].proved(check, self._now_s)
        self._forget(check)

    # decisions

    def wanted(self) -> Sequence[Path]:
        """Return the paths that need a check as a message of its own now.

        These are paths whose last messages have no check behind them, paths whose return is late, and due
        queues that late checks should have reached.
        """
        if not self._is_on:
            return ()
        found, reached_by = [], dict[str, float]()
        for path, road in self._roads.items():
            first = self._first_late(road)
            if first is not None and path.rung_s:
                reached_by[path.queue] = max(reached_by.get(path.queue, -inf), _due_s(first))
            is_doubted = first is not None or (not path.rung_s and road.doubted_s is not None)
            if (road.since or is_doubted) and self._is_time(path, road):
                found.append(path)
        for queue, due_s in reached_by.items():
            path = Path(0.0, queue)
            road = self._road(path)
            if road.proved_s < due_s and self._is_time(path, road) and path not in found:
                found.append(path)
        return found

    def overdue(self) -> Overdue:
        """Forget checks that were missing for long, and return the queues that do not give back."""
        rungs, queues, avoided = dict[float, int](), dict[str, int](), set[float]()
        for path, road in self._roads.items():
            if path.rung_s:
                missing, is_standing = self._missing(path, road)
                if missing:
                    rungs[path.rung_s] = rungs.get(path.rung_s, 0) + missing
                if is_standing:
                    avoided.add(path.rung_s)
            elif road.doubted_s is not None and self._now_s - road.doubted_s > OVERDUE_S:
                queues[path.queue] = max(len(road.away), 1)
        return Overdue(rungs, queues, frozenset(avoided))

    def late(self) -> Late:
        """Return the queues that have given back nothing for over :data:`LATE_S`: the early sign of a fault.

        As in :meth:`overdue`, a rung is blamed only while its due queue is known to be consumed.
        """
        rungs, queues = dict[float, float](), dict[str, float]()
        for path, road in self._roads.items():
            first = self._first_late(road)
            if not path.rung_s:
                if road.doubted_s is not None and self._now_s - road.doubted_s > LATE_S:
                    queues[path.queue] = self._now_s - road.doubted_s
            elif first is not None and self._is_consumed_since(_due_s(first), path.queue):
                rungs[path.rung_s] = max(rungs.get(path.rung_s, 0.0), self._late_s(first))
        return Late(rungs, queues)

    def _missing(self, path: Path, road: _Road) -> tuple[int, bool]:
        """Return how many messages a rung owes, and whether it gives nothing back on this path."""
        for check in [c for c in road.away if c.is_overtaken and self._late_s(c) > MISSING_S]:
            self._forget(check)
        late = [check for check in road.away if self._late_s(check) > OVERDUE_S]
        standing = [check for check in late if not check.is_overtaken]
        is_standing = bool(standing) and self._is_consumed_since(_due_s(standing[0]), path.queue)
        counted = late if is_standing else [check for check in late if check.is_overtaken]
        missing = sum(check.messages for check in counted)
        return max(missing, 1) if counted else 0, is_standing

    def _is_consumed_since(self, since_s: float, queue: str) -> bool:
        """Return whether the due queue gave back a message that was put straight into it after *since_s*."""
        road = self._roads.get(Path(0.0, queue))
        if road is None or road.proved_s < since_s:
            return False
        return self._now_s - road.proved_at_s >= PROVED_S

    def _first_late(self, road: _Road) -> Check | None:
        """Return the oldest check that is late and that no later check overtook."""
        return next((c for c in road.away if not c.is_overtaken and self._late_s(c) > LATE_S), None)

    def _late_s(self, check: Check) -> float:
        """Return by how many seconds a check is late; negative before its time, or before its confirm."""
        return -inf if check.sent_s is None else self._now_s - _due_s(check)

    def _may_be_back(self, check: Check) -> bool:
        """Return whether a check may have come back unseen."""
        late_s, unseen_s = self._late_s(check), self._unseen_s - check.sent_unseen_s
        return late_s <= OVERDUE_S and late_s + unseen_s >= -UNSEEN_S

    def _is_time(self, path: Path, road: _Road) -> bool:
        """Return whether a further check may be made: not too soon, and none waits for its confirm."""
        if self._now_s - road.last_s < max(EVERY_S, EVERY_RATIO * path.rung_s):
            return False
        return not road.away or road.away[-1].sent_s is not None

    def _road(self, path: Path) -> _Road:
        road = self._roads.get(path)
        if road is None:
            road = self._roads[path] = _Road()
        return road

    def _forget(self, check: Check) -> None:
        self._roads[check.path].away.remove(check)
        del self._checks[check.number]


def _due_s(check: Check) -> float:
    """Return when a confirmed check should come back."""
    return inf if check.sent_s is None else check.sent_s + check.path.rung_s
