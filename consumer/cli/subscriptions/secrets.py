"""``leveret subscriptions rotate-secret``: add a secret; old ones sign beside it for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.cli.shared.secrets import read_secret
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, change, described
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import drop_old, find, limit_overlap, rotate
from consumer.core.changes.view import identity
from consumer.core.errors import ConfigError
from consumer.core.text.durations import parse_duration
from consumer.core.text.rfc3339 import from_ms
from consumer.core.webhook.signing import Ed25519Key, format_public
from consumer.edges.process.fresh_secrets import fresh_like
from consumer.settings import load_settings

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

    def step(kept: Sequence[StoredEntry]) -> Merge:
        entry = find(kept, wanted)
        if options.drop:
            return drop_old(kept, entry.id)
        secret = fresh_like(entry.signing_keys()) if given is None else given
        now = time.time()
        rotated = rotate(kept, entry.id, secret, lost_key=options.lost_key, now=now)
        return limit_overlap(rotated, int(now + overlap_s))

    with errors_in_one_line():
        overlap_s = parse_duration(options.expire_in)
        if overlap_s > OVERLAP_MAX_S:
            raise ConfigError(f"--expire-in {options.expire_in!r} is over 366 days; give a shorter time")
        given = None if options.secret_file is None else read_secret(options.secret_file)
        merged = change(load_settings(), step)
    for entry in (*merged.changed, *merged.unchanged):
        _report(entry, options, shown=given is None and bool(merged.generated))


def _report(entry: StoredEntry, options: Rotate, *, shown: bool) -> None:
    """Print the number of signing secrets, and the new one; for ed25519 the public key instead."""
    keys = entry.signing_keys()
    public = format_public(keys[0]) if keys and isinstance(keys[0], Ed25519Key) else None
    secret = entry.secrets[0].get_secret_value() if shown and public is None else None
    if options.as_json:
        row: dict[str, object] = {"change": "rotated", **identity(entry), "secrets": len(entry.secrets)}
        row["ends_at"] = list(entry.ends_at)
        if options.drop:
            row["change"] = "dropped"
        print_json(row | ({"secret": secret} if secret else {}) | ({"public_key": public} if public else {}))
        return
    count = len(entry.secrets)
    typer.echo(f"{described(entry)}: {count} {'secret signs' if count == 1 else 'secrets sign'} each webhook")
    if entry.ends_at and not options.drop:
        typer.echo(f"the replaced ones stop to sign by {from_ms(max(entry.ends_at) * 1000)}")
    if public is not None:
        typer.echo(f"public key for its receivers: {public}")
    elif secret is not None:
        typer.echo(f"new secret, shown this once: {secret}")
