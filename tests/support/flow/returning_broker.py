"""Rungs and due queues that give back messages of :class:`ReturnWatch`, or keep them."""

from __future__ import annotations

from collections.abc import Callable

from consumer.core.returns.watch import Overdue, Path, ReturnWatch

TICK_S = 1.0


class ReturningBroker:
    """Rungs and due queues of a broker, in steps of a second; parts of it can stop.

    Attributes:
        stuck: Decides for a path whether the rung keeps its messages now.
        slow: Due queues that nobody consumes now.
        checks: Messages so far that contained only a check.
    """

    def __init__(self) -> None:
        self.watch = ReturnWatch()
        self.watch.start()
        self.stuck: Callable[[Path], bool] = lambda _path: False
        self.slow: frozenset[str] = frozenset()
        self.checks = 0
        self._now_s = 0.0
        self._rungs: list[tuple[float, Path, int]] = []
        self._queues: dict[str, list[int]] = {}

    def put(self, path: Path) -> int | None:
        """Publish a delivery message to a rung, at once confirmed."""
        number = self.watch.put(path)
        if number is not None:
            self._send(path, number)
        return number

    def purge(self) -> None:
        """Lose every message on a rung."""
        self._rungs.clear()

    def run(self, seconds: float, every: Callable[[], None] = lambda: None) -> Overdue:
        """Let time pass; call *every* once a second; return the judgement at the end."""
        found = Overdue()
        for _ in range(int(seconds / TICK_S)):
            self._now_s += TICK_S
            self.watch.advance(TICK_S)
            every()
            self._move()
            for path in self.watch.wanted():
                self.checks += 1
                self._send(path, self.watch.mark(path))
            found = self.watch.overdue()
        return found

    def until(self, judged: Callable[[Overdue], bool], most_s: float) -> float:
        """Return the seconds until the judgement is as wanted."""
        for passed_s in range(int(most_s)):
            if judged(self.run(TICK_S)):
                return passed_s + TICK_S
        raise AssertionError(f"not within {most_s} s: {self.watch.overdue()}")

    def _send(self, path: Path, number: int) -> None:
        self.watch.confirmed(number)
        if path.rung_s:
            self._rungs.append((self._now_s + path.rung_s, path, number))
        else:
            self._queues.setdefault(path.queue, []).append(number)

    def _move(self) -> None:
        over = [m for m in self._rungs if m[0] <= self._now_s and not self.stuck(m[1])]
        self._rungs = [m for m in self._rungs if m not in over]
        for _, path, number in sorted(over, key=lambda m: m[0]):
            self._queues.setdefault(path.queue, []).append(number)
        for queue in self._queues.keys() - self.slow:
            for number in self._queues.pop(queue):
                self.watch.returned(number)
