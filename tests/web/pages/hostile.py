"""Fill every text of a view with hostile text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final

HOSTILE: Final = (
    "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}\x1b[31m\u202eevil\u0000" + "W" * 300
)
#: Texts that choose a branch of a template or an address of ours, and never come from outside.
OURS: Final = frozenset({"scope", "tab", "key", "step", "reason_code", "csrf"})


def hostile(value: Any, name: str = "") -> Any:
    """Return *value* with each text in it replaced, through dataclasses, tuples and sequences."""
    if isinstance(value, Enum) or name in OURS:
        return value
    if isinstance(value, str):
        return HOSTILE if value else value
    if isinstance(value, bytes):
        return HOSTILE.encode() if value else value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: hostile(getattr(value, each.name), each.name) for each in fields(value)}
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(hostile(part, each) for part, each in zip(value, value._fields, strict=True)))
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence):
        return tuple(hostile(each) for each in value)
    return value
