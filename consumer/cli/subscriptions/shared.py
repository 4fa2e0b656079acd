"""Find a subscription by its address, reach the store and print an entry, for all subscription commands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Annotated

import typer

from consumer.cli.shared.complete import policy_names, subscription_names, tenant_names
from consumer.cli.shared.output import print_json
from consumer.cli.values.subscriptions import Identity
from consumer.cli.values.subscriptions import described as described_identity
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.report import Report
from consumer.core.changes.steps import Address, full_name
from consumer.core.errors import ConfigError
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import printable
from consumer.edges.store import Step, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="SUBSCRIPTION", help="tenant/name, id, or name alone.", autocompletion=subscription_names
    ),
]
Tenant = Annotated[str | None, typer.Option(help="Tenant of the subscription.", autocompletion=tenant_names)]
Name = Annotated[str | None, typer.Option(help="Its name, together with --tenant.")]
Policy = Annotated[
    str | None, typer.Option(help="Retry policy; see `leveret policy list`.", autocompletion=policy_names)
]


def address(which: str | None, tenant: str | None, name: str | None) -> Address:
    """Return the address of a subscription as the command line gives it.

    Raises:
        BadParameter: no subscription is named, or one is named twice.
    """
    if which is None and name is None:
        raise typer.BadParameter("name a subscription: tenant/name, its id, or --tenant with --name")
    if which is not None and (name is not None or tenant is not None):
        raise typer.BadParameter("name a subscription either as tenant/name or by --tenant and --name")
    return Address(text=which, tenant=tenant, name=name)


def read_entries(settings: Settings) -> Sequence[StoredEntry]:
    """Return all stored subscriptions, sorted by tenant and name."""

    async def read() -> Sequence[StoredEntry]:
        async with opened_store(settings) as store:
            return await store.entries()

    return sorted(asyncio.run(read()), key=full_name)


def read_with_pauses(settings: Settings) -> tuple[Sequence[StoredEntry], Collection[tuple[str, str]]]:
    """Return all stored subscriptions, sorted by tenant and name, and the keys of all pauses."""

    async def read() -> tuple[Sequence[StoredEntry], Collection[tuple[str, str]]]:
        async with opened_store(settings) as store:
            entries, pauses = await store.entries_and_pauses()
            return entries, [pause.key for pause in pauses]

    entries, pauses = asyncio.run(read())
    return sorted(entries, key=full_name), pauses


def change(settings: Settings, step: Step, *, write: bool = True, by: str | None = None) -> Merge:
    """Apply *step* to the stored subscriptions in one transaction; *by* is noted with each removal."""

    async def run() -> Merge:
        async with opened_store(settings) as store:
            return await store.change(step, write=write, by=by, who=cli_author())

    return asyncio.run(run())


def build(entry: StoredEntry, rules: SubscriptionRules) -> Subscription:
    """Return the subscription of *entry*.

    Raises:
        ConfigError: its retry policy is missing or its overrides are invalid; names the subscription.
    """
    try:
        return entry.build(rules)
    except ConfigError as error:
        raise ConfigError(f"{full_name(entry)}: {error}") from None


def report(done: Report, what: str, *, as_json: bool) -> None:
    """Print each change; an entry that already was as wanted is ``unchanged``.

    Args:
        done: The changes.
        what: The change in one word, such as ``enabled``.
        as_json: Whether to print one JSON object per line.
    """
    for row in done.changes:
        word = row.change if row.change == "unchanged" else what
        if as_json:
            print_json({"change": word, **row.identity, **(row.owed or {})})
        else:
            typer.echo(f"{word} {described(row.identity)}")


def described(identity: Identity) -> str:
    """Return a subscription as one line of text."""
    return printable(described_identity(identity))
