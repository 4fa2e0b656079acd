"""Make any text safe to print on one line."""

from __future__ import annotations

from typing import Final

MASK: Final = "***"
"""Stands for a secret that is not shown; in a subscriptions file for the one that is kept."""


def printable(text: str) -> str:
    r"""Return *text* with everything that a terminal or a log might obey written as ``\x1b`` and the like.

    Source: fault 51.
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
