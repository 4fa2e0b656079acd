"""``leveret store show | adopt | keys | rekey``: identify the store, and manage the keys of its secrets.

Data flow: store -> identity and generation, keys -> table or JSON; adopt -> a new generation, recorded on the
broker and sent to all workers; rekey -> every secret sealed with the first key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import (
    AsJson,
    demand_terminal,
    errors_in_one_line,
    print_fields,
    print_json,
    print_rows,
    warn,
)
from consumer.core.errors import BrokerUnavailable
from consumer.core.store.lineage import Doubt, Generation, Lineage, judge
from consumer.edges.broker.store_record import recording
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.ports import StoreRecord
from consumer.settings import Settings, load_settings
from topology.names import Names
from topology.plan import sized_queues

app = typer.Typer(help="The store, and the keys that encrypt the secrets in it.", no_args_is_help=True)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

T = TypeVar("T")


@app.command(epilog=examples("leveret store show", "leveret store show --json"))
def show(as_json: AsJson = False) -> None:
    """Print the store's place and generation, and the generation behind the broker's messages."""
    with errors_in_one_line():
        settings = load_settings()
        row = asyncio.run(_with_record(settings, _compared))
    (print_json if as_json else print_fields)(row)


@app.command(epilog=examples("leveret store adopt", "leveret store adopt --yes"))
def adopt(yes: Yes = False, as_json: AsJson = False) -> None:
    """Declare this store the right one from now on. Deliveries of subscriptions that it lacks stay waiting.

    The command asks if the broker's messages were made with another store; without a terminal it then
    needs --yes.
    """
    with errors_in_one_line():
        settings = load_settings()
        row = asyncio.run(_with_record(settings, _compared))
        if row["doubt"] is not None and not yes and not _agreed(row):
            typer.echo("nothing was adopted", err=True)
            raise typer.Exit(1)
        row = asyncio.run(_with_record(settings, _adopted))
        _notify_workers(settings)
    if as_json:
        print_json(row)
    else:
        typer.echo(f"adopted {row['store']}: generation {row['generation']} of {row['identity']}")


@app.command(epilog=examples("leveret store keys"))
def keys(as_json: AsJson = False) -> None:
    """Print each key by its id: whether it is at hand, and how many subscriptions it seals."""
    with errors_in_one_line():
        found = _with_store(lambda store: store.key_uses())
    rows = [
        {"key": use.id, "at_hand": use.is_at_hand, "first": use.is_first, "subscriptions": use.subscriptions}
        for use in found
    ]
    columns = ("key", "at_hand", "first", "subscriptions")
    print_rows(columns, rows, as_json=as_json, empty="no key yet; one is made when a subscription is stored")


@app.command(epilog=examples("leveret store rekey"))
def rekey(as_json: AsJson = False) -> None:
    """Seal every secret with the first key, so that the others may go. Daemons load it within a second."""
    with errors_in_one_line():
        done = _with_store(lambda store: store.rekey(cli_author()))
    if as_json:
        print_json({"rekeyed": done.rekeyed, "current": done.current, "locked": done.locked})
    else:
        typer.echo(f"{done.rekeyed} sealed anew, {done.current} already with the first key")
    if done.locked:
        warn(f"{done.locked} stay locked, as none of the keys at hand opens them; see leveret store keys")
        raise typer.Exit(1)


def _agreed(row: dict[str, object]) -> bool:
    """Show the store that would be adopted, and ask.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    demand_terminal(f"{row['doubt']}: {row['store']} holds {row['subscriptions']} subscriptions; ")
    print_fields(row)
    return typer.confirm("Adopt this store?", err=True)


def _row(store: SqlStore, settings: Settings, own: Lineage, record: Generation | None) -> dict[str, object]:
    return {
        "home": str(settings.home),
        "store": store.where,
        "identity": own.generation.store,
        "generation": own.generation.number,
        "subscriptions": own.subscriptions,
        "recorded_identity": None if record is None else record.store,
        "recorded_generation": None if record is None else record.number,
    }


async def _compared(store: SqlStore, settings: Settings, record: StoreRecord) -> dict[str, object]:
    """Return the store beside the broker's record; nothing changes."""
    own, doubts = await store.read_lineage(), list[Doubt | None]()

    def decide(recorded: Generation | None, messages: int) -> None:
        doubts[:] = [judge(own, recorded, messages)]

    recorded = await record.settle(decide)
    doubt = doubts[0]
    return {**_row(store, settings, own, recorded), "doubt": None if doubt is None else doubt.value}


async def _adopted(store: SqlStore, settings: Settings, record: StoreRecord) -> dict[str, object]:
    """Begin a generation that is newer than the recorded one, and record it."""
    before = await record.settle(lambda _recorded, _messages: None)
    after = await store.adopt(0 if before is None else before.number, cli_author())
    recorded = await record.settle(lambda _recorded, _messages: after)
    return _row(store, settings, await store.read_lineage(), recorded)


async def _with_record(
    settings: Settings, use: Callable[[SqlStore, Settings, StoreRecord], Awaitable[T]]
) -> T:
    spec = settings.topology_spec()
    queues = [name for name, _ in sized_queues(spec)]
    async with (
        opened_store(settings) as store,
        recording(find_broker(settings).options, spec.names, queues) as record,
    ):
        return await use(store, settings, record)


def _notify_workers(settings: Settings) -> None:
    """Make the workers look at the store at once; otherwise they do so within half a minute."""
    names = Names(settings.topology.prefix)
    try:
        asyncio.run(send_to_workers(find_broker(settings).options, names, {"kind": "store"}))
    except BrokerUnavailable as error:
        warn(f"the workers could not be notified, and look at the store within half a minute: {error}")


def _with_store(use: Callable[[SqlStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with opened_store(load_settings()) as store:
            return await use(store)

    return asyncio.run(run())
