"""``leveret parked reindex``: make the index of parked entries anew from the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import typer

from consumer.cli.parked.options import Wait
from consumer.cli.parked.shared import turn_of
from consumer.cli.remote.choice import chosen as chosen_server
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import (
    AsJson,
    errors_in_one_line,
    print_fields,
    print_json,
)
from consumer.core.errors import ConfigError
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked.drain import ParkedPlace
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.rebuild import Rebuilt, rebuild_index
from consumer.edges.store import opened_store
from consumer.settings import Settings, load_settings
from topology.names import Names


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command("reindex", epilog=examples("leveret parked reindex"))(reindex)


def reindex(wait: Wait = False, as_json: AsJson = False) -> None:
    """Make the index of parked entries anew, in one pass over the queue; all entries stay parked."""
    with errors_in_one_line():
        found = _reindexed(wait=wait)
    if as_json:
        print_json(found)
    else:
        print_fields(found)


def _reindexed(*, wait: bool) -> Mapping[str, object]:
    client = chosen_server()
    if client is None:
        return asdict(_rebuild(load_settings(), turn_of("reindex", wait=wait)))
    from consumer.cli.remote.parked import RemoteParked  # noqa: PLC0415 (imports an HTTP client)

    return RemoteParked(client).reindex(wait=wait)


def _rebuild(settings: Settings, turn: Turn) -> Rebuilt:
    """Rebuild the index.

    Raises:
        ConfigError: the index is off.
        LeveretError: as :func:`rebuild_index`.
    """
    if not settings.store.parked_index_max:
        raise ConfigError("the index of parked entries is off ([store] parked_index_max = 0)")

    async def run() -> Rebuilt:
        async with opened_store(settings) as store:
            names = Names(settings.topology.prefix)
            place = ParkedPlace(options=find_broker(settings).options, names=names, store=store)
            return await rebuild_index(place, turn)

    return run_to_the_end(run())
