"""``leveret subscriptions test``: send one signed webhook straight to the endpoint, without the broker.

Data flow: subscription -> make_trial -> the daemon's own sender, address guard included -> outcome, printed.
"""

from __future__ import annotations

import asyncio
import os
import time
from importlib.metadata import version

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, warn
from consumer.cli.subscriptions.shared import (
    Name,
    Tenant,
    Which,
    address,
    build,
    described,
    read_with_pauses,
)
from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import find, full_name, locked_text
from consumer.core.changes.view import identity
from consumer.core.errors import ConfigError
from consumer.core.model import Outcome
from consumer.core.subscription.pauses import paused
from consumer.core.subscription.trial import Trial, advice, make_trial
from consumer.core.text.printable import printable
from consumer.edges.operate.sender import make_sender
from consumer.settings import Settings, load_settings

SHOWN_CHARS = 300
"""Characters of a response body that are printed for people, at most."""


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command("test", epilog=examples("leveret subscriptions test acme/shop"))(send)


def send(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Send one signed webhook `leveret.test` to the endpoint, past broker and daemon. Exit 1 unless 2xx.

    It is sent once, and changes neither counters nor the subscription.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        settings = load_settings()
        entries, pauses = read_with_pauses(settings)
        entry = find(entries, wanted)
        if entry.locked is not None:
            raise ConfigError(f"{full_name(entry)}: {locked_text(entry)}")
        built = build(entry, settings.subscription_rules())
        trial = make_trial(built, f"leveret/{version('leveret')}", time.time(), os.urandom(10))
        outcome = asyncio.run(_send(settings, trial))
    if not entry.enabled:
        warn(f"{entry.tenant}/{entry.label} is disabled: only this test was sent; see subscriptions enable")
    if paused(pauses, entry.tenant, entry.id):
        warn(f"{entry.tenant}/{entry.label} is paused: only this test was sent; see `leveret pause`")
    (_print_json if as_json else _print_text)(entry, trial, outcome)
    failed = advice(outcome, built.on_status)
    if failed is not None:
        fail(failed)


async def _send(settings: Settings, trial: Trial) -> Outcome:
    sender = make_sender(settings)
    try:
        return await sender.send(trial.request)
    finally:
        await sender.close()


def _print_json(entry: StoredEntry, trial: Trial, outcome: Outcome) -> None:
    print_json(
        {
            **identity(entry),
            "ok": outcome.status is not None and 200 <= outcome.status < 300,
            "kind": outcome.kind.value,
            "status": outcome.status,
            "duration_s": round(outcome.duration_s, 6),
            "detail": outcome.detail,
            "event_id": trial.event_id,
            "timestamp": trial.timestamp,
            "signature": trial.signature,
            "body": trial.body.decode(),
            "response": outcome.body.decode("utf-8", "replace"),
        }
    )


def _print_text(entry: StoredEntry, trial: Trial, outcome: Outcome) -> None:
    code = outcome.kind.value if outcome.status is None else f"HTTP {outcome.status}"
    count = len(trial.signature.split())
    typer.echo(described(entry))
    typer.echo(f"outcome: {code} after {outcome.duration_s * 1000:.0f} ms")
    typer.echo(f"signed:  {trial.event_id}.{trial.timestamp}.{trial.body.decode()}")
    typer.echo(f"with:    {count} {'secret' if count == 1 else 'secrets'}: {trial.signature}")
    if outcome.body:
        text = printable(outcome.body.decode("utf-8", "replace"))
        typer.echo(f"answer:  {text[:SHOWN_CHARS]}{' …' if len(text) > SHOWN_CHARS else ''}")
