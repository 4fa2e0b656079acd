"""What this machine ran out of: no endpoint is to blame, no attempt is spent, and readiness turns red."""

from __future__ import annotations

import math
from typing import Final

RED_S: Final = (
    15.0  #: readiness stays red for so long after the last such fault: a deferral looks again by then
)


class LocalFaults:
    """The last fault of this machine's own."""

    def __init__(self) -> None:
        self._detail = ""
        self._at = -math.inf

    def met(self, detail: str, now: float) -> None:
        """A request was not sent for want of something here; *now* in monotonic seconds."""
        self._detail, self._at = detail, now

    def unready(self, now: float) -> str | None:
        """Say why nothing can be sent from here, or None; *now* in monotonic seconds."""
        return f"this machine cannot send: {self._detail}" if now - self._at < RED_S else None
