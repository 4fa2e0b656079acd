"""Limit what one client may do in a time: a bucket of tokens for each key. Pure; time is an argument."""

from __future__ import annotations

from collections import OrderedDict

KEYS_MAX = 10_000  #: keys that are remembered; the oldest one is forgotten first


class RateLimiter:
    """Buckets of tokens, one for each key."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        """Begin with full buckets.

        Args:
            rate_per_s: Tokens that a bucket gets in a second.
            burst: Tokens that fit into a bucket.
        """
        self._rate = rate_per_s
        self._burst = burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  #: tokens, and when

    def wait_s(self, key: str, now: float) -> float:
        """Return the seconds until *key* may take a token; 0 if it may take one now.

        Args:
            key: The client.
            now: Monotonic seconds.
        """
        return max(0.0, (1.0 - self._level(key, now)) / self._rate)

    def take(self, key: str, now: float) -> float:
        """Take a token of *key* if there is one; return 0, or the seconds until there is one."""
        wait = self.wait_s(key, now)
        if wait == 0.0:
            self._levels[key] = (self._level(key, now) - 1.0, now)
            self._levels.move_to_end(key)
            if len(self._levels) > KEYS_MAX:
                self._levels.popitem(last=False)
        return wait

    def _level(self, key: str, now: float) -> float:
        level, at = self._levels.get(key, (float(self._burst), now))
        return min(float(self._burst), level + max(0.0, now - at) * self._rate)
