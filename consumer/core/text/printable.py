"""Escape any text so that it prints safely on one line."""

from __future__ import annotations

from typing import Final

MASK: Final = "***"
"""The text shown instead of a secret. In a subscriptions file it means that the stored secret is kept."""


def printable(text: str) -> str:
    r"""Return *text* with every character that could control a terminal or log escaped, such as ``\x1b``.

    Source: fault 51.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
