"""Bound the time of each look of `leveret doctor`: one that does not end becomes a finding."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from consumer.core.tools.doctor.finding import Check, Finding, fault

LIMIT_S: Final = 80.0  #: longest time of a look; its own questions have shorter bounds
GRACE_S: Final = 5.0  #: longest time for the look to close its connections afterwards


async def in_time(
    look: Coroutine[Any, Any, object], check: Check, subject: str, limit_s: float = LIMIT_S
) -> Sequence[Finding]:
    """Run *look*; return a fault if it does not end in time or the system refuses it, and nothing otherwise.

    A look that ignores its cancellation for :data:`GRACE_S` is left behind.

    Args:
        look: Keeps its results itself.
        check: Area of the fault.
        subject: Name of the examined part.
        limit_s: Longest time, in seconds.

    Raises:
        Exception: any error of *look* that the system does not cause.
    """
    task = asyncio.ensure_future(look)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            task.result()
            return ()
    except OSError as error:
        remedy = "correct the rights of the named file, or raise the limit that it names"
        return (fault(check, subject, f"cannot be examined: {error}", remedy),)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    return (overdue(check, subject, limit_s),)


def overdue(check: Check, subject: str, limit_s: float) -> Finding:
    """Return the fault for a look that did not end within *limit_s*."""
    text = f"was not examined to the end within {limit_s:g} s"
    return fault(check, subject, text, "look whether it hangs or is overloaded, and try again")
