"""Write the line of a deed outside of the store before it is done, and its outcome afterwards.

So no deed is without a line, even if the store or this process goes away during the deed. A line whose
outcome is ``started`` is of a deed that is being done, or whose end nobody noted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from consumer.core.errors import StoreUnavailable
from consumer.core.store.audit import Change
from consumer.web.access.guard import Caller

STARTED: Final = "started"
FAILED: Final = "failed"


@asynccontextmanager
async def audited(caller: Caller, change: Change) -> AsyncIterator[dict[str, object]]:
    """Write *change* before the deed; the deed fills the given values with its outcome.

    Args:
        caller: Author of the deed.
        change: The deed; its values after are those that are known before it.

    Raises:
        StoreUnavailable: the line cannot be written, and nothing was done.
    """
    line = await caller.context.store.records.audit.begin(
        caller.who, replace(change, after={**change.after, "outcome": STARTED})
    )
    outcome: dict[str, object] = {}
    try:
        yield outcome
    except Exception:
        await _finish(caller, line, {**change.after, **outcome, "outcome": FAILED})
        raise
    await _finish(caller, line, {**change.after, **outcome})


async def _finish(caller: Caller, line: str, after: dict[str, object]) -> None:
    try:
        await caller.context.store.records.audit.finish(line, after)
    except StoreUnavailable as error:  # the deed is done, and its line shows that it was begun
        caller.context.log.warning("api.audit_unfinished", line=line, error=str(error))
