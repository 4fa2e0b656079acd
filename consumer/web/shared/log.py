"""The log of the API, as its parts see it; structlog implements it."""

from __future__ import annotations

from typing import Protocol


class Log(Protocol):
    """Writes lines of fields. A field never contains a secret."""

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happened."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what somebody should look at."""

    def error(self, event: str, /, **fields: object) -> None:
        """Log a fault."""
