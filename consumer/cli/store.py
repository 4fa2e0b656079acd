"""``leveret store keys | rekey``: which keys seal the secrets in the store, and sealing them anew.

Data flow: store -> rows per key -> table or JSON; rekey -> every secret sealed with the first key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from consumer.cli.options import examples
from consumer.cli.output import AsJson, errors_in_one_line, print_json, print_rows, warn
from consumer.edges.store import SqlStore, opened_store
from consumer.settings import load_settings

app = typer.Typer(help="The keys that encrypt the secrets in the store.", no_args_is_help=True)

T = TypeVar("T")


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
    """Seal every secret with the first key, so that the others may go. Daemons see it within a second."""
    with errors_in_one_line():
        done = _with_store(lambda store: store.rekey())
    if as_json:
        print_json({"rekeyed": done.rekeyed, "current": done.current, "locked": done.locked})
    else:
        typer.echo(f"{done.rekeyed} sealed anew, {done.current} were so already")
    if done.locked:
        warn(f"{done.locked} stay locked: no key at hand opens them; see leveret store keys")
        raise typer.Exit(1)


def _with_store(use: Callable[[SqlStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with opened_store(load_settings()) as store:
            return await use(store)

    return asyncio.run(run())
