"""``leveret subscriptions rotate-secret``: add a secret; old ones sign beside it for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.cli.shared.secrets import read_secret
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described
from consumer.cli.subscriptions.source import subscriptions
from consumer.cli.values.subscriptions import Rotated, Rotation
from consumer.core.errors import ConfigError
from consumer.core.text.durations import parse_duration
from consumer.core.text.rfc3339 import from_ms

OVERLAP_MAX_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotate:
    """The command line of ``leveret subscriptions rotate-secret``."""

    which: Which = None
    tenant: Tenant = None
    name: Name = None
    secret_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with the new secret; - is stdin. Absent: generated."),
    ] = None
    expire_in: Annotated[
        str, typer.Option(metavar="DURATION", help="Time after which the secret replaced now stops to sign.")
    ] = "24h"
    drop: Annotated[
        bool, typer.Option("--drop-old", help="End the overlap: only the newest secret signs. Adds none.")
    ] = False
    lost_key: Annotated[
        bool,
        typer.Option("--lost-key", help="The key of the store is lost: drop the secrets that it sealed."),
    ] = False
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "rotate-secret",
        epilog=examples(
            "leveret subscriptions rotate-secret acme/shop",
            "leveret subscriptions rotate-secret acme/shop --expire-in 7d",
            "leveret subscriptions rotate-secret acme/shop --drop-old",
        ),
    )(takes(Rotate)(rotate_secret))


def rotate_secret(options: Rotate) -> None:
    """Add a new secret to a subscription and show it once, here. The old one signs beside it for --expire-in.

    Older secrets keep their ends; --drop-old ends all of them at once. At most 10 sign. An eleventh is
    refused for 24 h after the oldest was replaced; then the oldest goes.

    If a subscriptions file lists the secrets, put the new one there too, or the next apply removes it.
    """
    if options.drop and options.secret_file is not None:
        raise typer.BadParameter("--drop-old takes no new secret; leave --secret-file out")
    if options.drop and options.lost_key:
        raise typer.BadParameter("--drop-old keeps the newest secret, --lost-key none; leave one of them out")
    wanted = address(options.which, options.tenant, options.name)
    with errors_in_one_line():
        source = subscriptions()
        if parse_duration(options.expire_in) > OVERLAP_MAX_S:
            raise ConfigError(f"--expire-in {options.expire_in!r} is over 366 days; give a shorter time")
        rotation = Rotation(
            secret=None if options.secret_file is None else read_secret(options.secret_file),
            overlap=options.expire_in,
            drop_old=options.drop,
            lost_key=options.lost_key,
        )
        rotated = source.rotate(wanted, rotation)
    _report(rotated, options)


def _report(done: Rotated, options: Rotate) -> None:
    """Print the number of signing secrets, and the new one; for ed25519 the public key instead."""
    if options.as_json:
        change = "dropped" if options.drop else "rotated"
        row = {"change": change, **done.identity, "secrets": done.secrets, "ends_at": list(done.ends_at)}
        public = {"public_key": done.public_key} if done.public_key else {}
        print_json(row | ({"secret": done.secret} if done.secret else {}) | public)
        return
    signs = "secret signs" if done.secrets == 1 else "secrets sign"
    typer.echo(f"{described(done.identity)}: {done.secrets} {signs} each webhook")
    if done.ends_at and not options.drop:
        typer.echo(f"the replaced ones stop to sign by {from_ms(max(done.ends_at) * 1000)}")
    if done.public_key is not None:
        typer.echo(f"public key for its receivers: {done.public_key}")
    elif done.secret is not None:
        typer.echo(f"new secret, shown this once: {done.secret}")
