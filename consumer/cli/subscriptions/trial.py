"""``leveret subscriptions test``: send one signed webhook straight to the endpoint, without the broker.

Data flow: subscription -> make_trial -> the daemon's own sender, address guard included -> outcome, printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, warn
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described
from consumer.cli.subscriptions.source import subscriptions
from consumer.cli.values.subscriptions import Identity
from consumer.core.text.printable import printable

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
        tried = subscriptions().test(wanted)
    name = f"{tried.identity['tenant']}/{tried.identity['name']}"
    if not tried.enabled:
        warn(f"{name} is disabled: only this test was sent; see subscriptions enable")
    if tried.paused:
        warn(f"{name} is paused: only this test was sent; see `leveret pause`")
    if as_json:
        print_json({**tried.identity, **tried.result})
    else:
        _print_text(tried.identity, tried.result)
    if tried.advice is not None:
        fail(tried.advice)


def _print_text(identity: Identity, result: Mapping[str, Any]) -> None:
    code = result["kind"] if result["status"] is None else f"HTTP {result['status']}"
    count = len(result["signature"].split())
    typer.echo(described(identity))
    typer.echo(f"outcome: {code} after {result['duration_s'] * 1000:.0f} ms")
    typer.echo(f"signed:  {result['event_id']}.{result['timestamp']}.{result['body']}")
    typer.echo(f"with:    {count} {'secret' if count == 1 else 'secrets'}: {result['signature']}")
    if result["response"]:
        text = printable(result["response"])
        typer.echo(f"answer:  {text[:SHOWN_CHARS]}{' …' if len(text) > SHOWN_CHARS else ''}")
