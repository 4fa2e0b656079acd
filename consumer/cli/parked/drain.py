"""Take entries out of the parked queue, for replay and purge; the store learns of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.cli.shared.audit import write_line
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.core.store.audit import Change
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked.drain import ParkedPlace, Pass
from consumer.edges.operate.parked.drain import drain as drained
from consumer.edges.store import opened_store
from consumer.settings import Settings
from topology.names import Names

_T = TypeVar("_T")
Audited = Callable[[], Change | None]


def drain(settings: Settings, step: Pass[_T], take: Callable[[_T], None], audited: Audited) -> None:
    """Run *step* over its own connection, pass each result to *take* at once, and write the audit log.

    So the finished part is known if the broker fails midway. Entries that left the queue leave the index too.

    Args:
        settings: Names broker and store.
        step: The pass.
        take: Receives each result.
        audited: Returns the line of the audit log once the pass has ended; None: nothing was changed.

    Raises:
        BrokerUnavailable: from *step*.
        KeyboardInterrupt: a signal came; the entry in progress is finished, the rest stays parked.
    """

    async def run() -> None:
        async with opened_store(settings) as store:
            names = Names(settings.topology.prefix)
            place = ParkedPlace(options=find_broker(settings).options, names=names, store=store)
            try:
                await drained(place, step, take)
            finally:
                await write_line(store, audited())

    run_to_the_end(run())
