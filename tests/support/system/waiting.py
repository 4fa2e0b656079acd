"""Wait for a condition until a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


PATIENCE_S = 150.0  #: half of the limit of a test: on a busy machine a broker takes a minute to start


LOOK_S = 0.02  #: pause between two looks


async def until(holds: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Return once *holds* is true.

    Raises:
        AssertionError: it was not within *timeout_s*.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or holds}"
        await asyncio.sleep(LOOK_S)


async def shown(look: Callable[[], Awaitable[Iterable[T]]], fits: Callable[[T], bool]) -> Sequence[T]:
    """Look until at least one result fits; return all results that fit."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := [one for one in await look() if fits(one)]):  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(LOOK_S)
    return found
