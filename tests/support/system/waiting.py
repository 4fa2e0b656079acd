"""Wait for a condition until a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from tests.support.processes.children import pause_s

T = TypeVar("T")


PATIENCE_S = 150.0  #: half of the limit of a test: on a busy machine a broker takes a minute to start


async def until(holds: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Return once *holds* is true.

    Raises:
        AssertionError: it was not within *timeout_s*.
    """
    began = time.monotonic()
    while not holds():
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"not within {timeout_s} s: {what or holds}"
        await asyncio.sleep(pause_s(waited_s))


async def shown(look: Callable[[], Awaitable[Iterable[T]]], fits: Callable[[T], bool]) -> Sequence[T]:
    """Look until at least one result fits; return all results that fit."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while not (found := [one for one in await look() if fits(one)]):  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(pause_s(time.monotonic() - began))
    return found
