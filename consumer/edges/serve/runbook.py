"""The runbook as a web page. ``python -m docs.generate`` makes it from docs/runbook.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

RUNBOOK_PATH: Final = "/runbook"
RUNBOOK_FILE: Final = Path(__file__).with_name("runbook.html")
RUNBOOK_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }
)
"""The page has a stylesheet of its own, and neither script, picture nor form."""


@cache
def runbook_page() -> bytes:
    """Return the page; it contains no secret and nothing about this installation."""
    return RUNBOOK_FILE.read_bytes()
