"""Write seconds as whole milliseconds, as our headers have them, and read them again."""

from __future__ import annotations

from math import ceil


def ceil_ms(seconds: float) -> int:
    """Return whole milliseconds, rounded up: never early."""
    return ceil(round(seconds * 1000, 3))


def seconds_of(ms: object) -> float:
    """Read what :func:`ceil_ms` wrote.

    Raises:
        TypeError: *ms* is not an integer: a float or a decimal may be a value that cannot be compared.
    """
    if not isinstance(ms, int):
        raise TypeError(f"whole milliseconds are expected, not {type(ms).__name__}")
    return ms / 1000
