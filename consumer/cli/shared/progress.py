"""Show on a terminal how far a pass over a queue is: one line on stderr that replaces itself."""

from __future__ import annotations

import sys
import time

EVERY_S = 0.1  #: pause between two updates
FROM = 500  #: messages; a shorter pass shows nothing


class Progress:
    """The progress line. Nothing is shown unless stderr is a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._next_at = 0.0

    def read(self, count: int, total: int) -> None:
        """Show that *count* of *total* messages were read; the last call erases the line."""
        if not self._is_shown or total < FROM:
            return
        now = time.monotonic()
        if count >= total:
            sys.stderr.write("\r\x1b[K")
        elif now >= self._next_at:
            self._next_at = now + EVERY_S
            sys.stderr.write(f"\r\x1b[K{count:,} of {total:,} entries read")
        sys.stderr.flush()
