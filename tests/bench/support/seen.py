"""Build requests as a proof's receiver logs them."""

from __future__ import annotations

from bench.sink import Seen


def answered(began: float, *, path: str, event: str = "e", attempt: int = 1, status: int = 200) -> Seen:
    """Return one request that was answered after 10 ms; *began* is Unix seconds."""
    return Seen(
        path=path,
        id=event,
        attempt=attempt,
        status=status,
        began=began,
        ended=began + 0.01,
        digest="",
        verified=False,
    )
