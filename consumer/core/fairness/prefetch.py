"""How many messages per queue are taken at once, by the sizes that came lately.

A producer chooses the size of its messages, so a window starts as if all were as large as a broker takes. It
grows with each few messages that are smaller, and shrinks with larger ones. The bound on the bytes in hand is
kept elsewhere; this keeps the broker from pushing what would only wait in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

START_BYTES = 16 * 1024 * 1024  #: assumed of each message before the first one: RabbitMQ 4's maximum
MEAN_OVER = 32  #: messages that the moving average looks at
GROWTH = 8  #: a window grows at most so many times at once
GROW_AFTER_S = 0.1  #: it grows no sooner after it was set
SHRUNK_S = 1.0  #: and no sooner after it shrank
LEAST_CHANGE = 2  #: times; less is not worth the pause between two consumers


@dataclass(slots=True)
class Prefetch:
    """The prefetch of one window."""

    most: int  #: messages per queue, however small
    room_bytes: float | None = None  #: per queue; None: always *most*
    value: int = field(init=False)
    _mean_bytes: float = field(default=START_BYTES, init=False)
    _count: int = field(default=0, init=False)
    _grow_at: float = field(default=0.0, init=False)  #: monotonic seconds before which it does not grow

    def __post_init__(self) -> None:
        """Start as if every message were of the largest size."""
        self.value = self._fitting()

    def add(self, size_bytes: int, now: float) -> bool:
        """Take a message that came; say whether the window should be set anew, by :meth:`change`."""
        self._count += 1
        self._mean_bytes += (size_bytes - self._mean_bytes) / min(self._count, MEAN_OVER)
        if self.room_bytes is None:
            return False
        fitting = self._fitting()
        return fitting * LEAST_CHANGE <= self.value or (
            now >= self._grow_at and fitting > self.value and self._is_worth(fitting)
        )

    def change(self, now: float) -> int:
        """Take the value that fits now, and return it; growth comes in steps."""
        fitting = self._fitting()
        self._grow_at = now + (SHRUNK_S if fitting < self.value else GROW_AFTER_S)
        self.value = min(fitting, self.value * GROWTH)
        return self.value

    def _is_worth(self, fitting: int) -> bool:
        return fitting >= self.value * LEAST_CHANGE or fitting == self.most

    def _fitting(self) -> int:
        if self.room_bytes is None:
            return self.most
        return max(1, min(self.most, int(self.room_bytes / max(1.0, self._mean_bytes))))
