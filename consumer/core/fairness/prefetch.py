"""Choose the prefetch of a window by the sizes of recent messages.

Data flow: sizes of messages -> Prefetch -> the prefetch of each consumer of the window.

Producers choose the size of their messages, so a window starts as if every message had the largest size that
the broker takes. Its prefetch grows after some smaller messages, and shrinks after larger ones. The byte
budget bounds the bytes in hand; the prefetch keeps the broker from pushing messages that would wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

START_BYTES = 16 * 1024 * 1024  #: assumed of each message before the first one: RabbitMQ 4's maximum
MEAN_OVER = 32  #: messages in the moving average
GROWTH = 8  #: one change multiplies the prefetch by this at most
GROW_AFTER_S = 0.1  #: shortest time from a growth to the next one
SHRUNK_S = 1.0  #: shortest time from a shrinkage to a growth
LEAST_CHANGE = 2  #: factor; a smaller change is not worth the pause between two consumers


@dataclass(slots=True)
class Prefetch:
    """The prefetch of one window."""

    most: int  #: upper limit, messages per queue
    room_bytes: float | None = None  #: bytes per queue; None: the prefetch is always *most*
    value: int = field(init=False)
    _mean_bytes: float = field(default=START_BYTES, init=False)
    _count: int = field(default=0, init=False)
    _since_change: int = field(default=0, init=False)  #: messages
    _grow_at: float = field(default=0.0, init=False)  #: monotonic seconds before which it does not grow

    def __post_init__(self) -> None:
        """Start as if every message were of the largest size."""
        self.value = self._fitting()

    def add(self, size_bytes: int) -> None:
        """Take in the size of a message."""
        self._count += 1
        self._since_change += 1
        self._mean_bytes += (size_bytes - self._mean_bytes) / min(self._count, MEAN_OVER)

    def due_at(self, now: float) -> float | None:
        """Return when :meth:`change` should set a new prefetch, in monotonic seconds; None: it fits.

        A time after *now* is returned once as many messages as one queue may have in hand have come since the
        last change: a queue may be full then, and no further message come while those stay in hand.
        """
        if self.room_bytes is None:
            return None
        fitting = self._fitting()
        if fitting * LEAST_CHANGE <= self.value:
            return now
        if fitting <= self.value or not self._is_worth(fitting):
            return None
        if now >= self._grow_at:
            return now
        return self._grow_at if self._since_change >= self.value else None

    def change(self, now: float) -> int:
        """Set the prefetch that fits now, and return it; growth comes in steps."""
        fitting = self._fitting()
        self._grow_at = now + (SHRUNK_S if fitting < self.value else GROW_AFTER_S)
        self.value = min(fitting, self.value * GROWTH)
        self._since_change = 0
        return self.value

    def _is_worth(self, fitting: int) -> bool:
        return fitting >= self.value * LEAST_CHANGE or fitting == self.most

    def _fitting(self) -> int:
        if self.room_bytes is None:
            return self.most
        return max(1, min(self.most, int(self.room_bytes / max(1.0, self._mean_bytes))))
