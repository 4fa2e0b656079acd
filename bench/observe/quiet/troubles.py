"""Real troubles after the ordinary life. Each has to raise its alert, or the set-up cannot see any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.observe.quiet.stage import Stage
from bench.observe.quiet.watch import Labels

MEMORY_RATIO: Final = 0.82  #: of its limit that our broker uses

_USED: Final = 'rabbitmq_process_resident_memory_bytes{job="rabbitmq"}'


@dataclass(frozen=True, slots=True)
class Trouble:
    """One trouble, and its alert."""

    alert: str
    make: Callable[[Stage], Awaitable[Labels]]  #: makes it, and returns labels that the alert has


async def endpoint_dies(stage: Stage) -> Labels:
    """Let an endpoint refuse everything from now on."""
    stage.endpoints["dead"].status = 503
    return {"subscription": "t03/dead"}


async def worker_stays_away(stage: Stage) -> Labels:
    """Stop the last worker for good; Prometheus still scrapes its address."""
    number = len(stage.workers.running) - 1
    await stage.workers.stop(number)
    return {"instance": stage.workers.running[number].listen}


async def memory_fills(stage: Stage) -> Labels:
    """Lower the memory limit of our broker until it uses most of it."""
    [used] = await asyncio.to_thread(stage.tower.values, _USED)
    limit = round(used / MEMORY_RATIO)
    await stage.broker.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({{absolute, {limit}}}).")
    return {"job": "rabbitmq"}


WORKER_AWAY: Final = Trouble("LeveretWorkerAway", worker_stays_away)
TROUBLES: Final[Sequence[Trouble]] = (
    Trouble("LeveretEndpointTrouble", endpoint_dies),
    WORKER_AWAY,
    Trouble("LeveretBrokerMemory80", memory_fills),
)
