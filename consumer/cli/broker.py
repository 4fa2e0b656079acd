"""``leveret broker start | stop | status``: run the private RabbitMQ node of a state folder.

Data flow: settings (folders of state and RabbitMQ) -> PrivateBroker -> lines for people, or one JSON object.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.edges.private_broker import BrokerStatus, PrivateBroker, find_server
from consumer.settings import load_settings

app = typer.Typer(help="The private RabbitMQ node, used when no AMQP URL is set.", no_args_is_help=True)

ShowSecrets = Annotated[bool, typer.Option("--show-secrets", help="Print the AMQP URL with its password.")]


@app.command(epilog=examples("leveret broker start", "leveret broker start --json --show-secrets"))
def start(as_json: AsJson = False, show_secrets: ShowSecrets = False) -> None:
    """Start the node unless it runs already; return when it is ready (5 to 15 s)."""
    with errors_in_one_line():
        broker = _broker()
        broker.start()
        _show(broker.status(), as_json=as_json, show_secrets=show_secrets)


@app.command(epilog=examples("leveret broker stop"))
def stop(as_json: AsJson = False) -> None:
    """Stop the node cleanly; its data stays. Without a running node it does nothing."""
    with errors_in_one_line():
        broker = _broker()
        broker.stop()
        _show(broker.status(), as_json=as_json, show_secrets=False)


@app.command(epilog=examples("leveret broker status"))
def status(as_json: AsJson = False, show_secrets: ShowSecrets = False) -> None:
    """Print whether the node runs, and its addresses. Exit 1 unless it is ready."""
    with errors_in_one_line():
        now = _broker().status()
        _show(now, as_json=as_json, show_secrets=show_secrets)
    raise typer.Exit(0 if now.state == "running" else 1)


def _broker() -> PrivateBroker:
    settings = load_settings()
    server = find_server(settings.rabbitmq_home, settings.rabbitmq_chroot)
    return PrivateBroker(settings.home, server=server)


def _show(now: BrokerStatus, *, as_json: bool, show_secrets: bool) -> None:
    """Print the known fields; the password in the AMQP URL is masked unless *show_secrets*."""
    amqp_url = now.amqp_url
    if amqp_url is not None and not show_secrets:
        amqp_url = re.sub(r":[^:@]*@", ":***@", amqp_url)
    fields: dict[str, object] = {
        "state": now.state,
        "node": now.node,
        "pid": now.pid,
        "version": now.version,
        "amqp_url": amqp_url,
        "management_url": now.management_url,
        "prometheus_url": now.prometheus_url,
        "data_folder": str(now.data_folder),
        "data_bytes": now.data_bytes,
    }
    if as_json:
        print_json(fields)
        return
    for name, value in fields.items():
        if value is not None:
            typer.echo(f"{name.replace('_', ' ')}: {value}")
