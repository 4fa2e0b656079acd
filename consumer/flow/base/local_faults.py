"""Remember what this machine ran out of: no attempt is spent for that, and readiness turns red."""

from __future__ import annotations

import math
from typing import Final

RED_S: Final = (
    15.0  #: readiness stays red for so long after the last such fault: a deferral looks again by then
)


class LocalFaults:
    """The last fault of this machine."""

    def __init__(self) -> None:
        self._detail = ""
        self._at = -math.inf

    def met(self, detail: str, now: float) -> None:
        """Note that a request was not sent since this machine lacks something; *now* in monotonic seconds."""
        self._detail, self._at = detail, now

    def unready(self, now: float) -> str | None:
        """Return why this machine cannot send, or None; *now* in monotonic seconds."""
        return f"this machine cannot send: {self._detail}" if now - self._at < RED_S else None
