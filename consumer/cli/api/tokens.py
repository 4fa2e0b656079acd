"""``leveret tokens create | list | revoke``: manage the tokens of the HTTP API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar

import typer

from consumer.cli.shared.complete import tenant_names
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json, print_rows
from consumer.core.errors import ConfigError
from consumer.core.event.decode import TENANT_PATTERN
from consumer.core.message.parked import rfc3339
from consumer.core.store.tokens import NAME_MAX, Scope, Token
from consumer.core.text.durations import parse_duration
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import load_settings

_T = TypeVar("_T")

app = typer.Typer(help="Tokens of the HTTP API.", no_args_is_help=True)

COLUMNS = ("id", "name", "scope", "tenant", "state", "created", "expires", "last_used")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its purpose or owner, for people.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a token, as `tokens list` shows it.")]
Rights = Annotated[Scope, typer.Option("--scope", help="Its rights; each scope includes those before it.")]
Tenant = Annotated[
    str | None,
    typer.Option(help="The only tenant that it sees. Absent: every tenant.", autocompletion=tenant_names),
]
ExpiresIn = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Time after which it ends. Absent: it does not end.")
]


@app.command(
    epilog=examples(
        "leveret tokens create 'shop backend' --scope operate",
        "leveret tokens create acme --tenant acme --expires-in 90d",
    )
)
def create(
    name: Name,
    scope: Rights = Scope.READ,
    tenant: Tenant = None,
    expires_in: ExpiresIn = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it, this once; the store keeps only its hash."""
    with errors_in_one_line():
        _check(name, tenant)
        expires = None if expires_in is None else time.time() + parse_duration(expires_in)
        token, text = _with_store(
            lambda store: store.records.tokens.create(
                name, scope, tenant=tenant, expires=expires, who=cli_author()
            )
        )
    if as_json:
        print_json({**_row(token), "token": text})
        return
    typer.echo(f"created {token.id}, shown this once:", err=True)
    typer.echo(text)


@app.command("list", epilog=examples("leveret tokens list", "leveret tokens list --json"))
def list_(as_json: AsJson = False) -> None:
    """Print the tokens, the newest first, without their secrets."""
    with errors_in_one_line():
        found = _with_store(lambda store: store.records.tokens.all())
    print_rows(COLUMNS, [_row(token) for token in found], as_json=as_json, empty="there are no tokens")


@app.command(epilog=examples("leveret tokens revoke 0123456789ab"))
def revoke(token: Id, as_json: AsJson = False) -> None:
    """End a token for good; the API refuses it within a second."""
    with errors_in_one_line():
        found, is_changed = _with_store(lambda store: store.records.tokens.revoke(token, cli_author()))
    if found is None:
        fail(f"there is no token {token}; see leveret tokens list")
    if not is_changed:
        fail(f"{token} was revoked before")
    print_rows(COLUMNS, [_row(found)], as_json=as_json)


def _check(name: str, tenant: str | None) -> None:
    """Raise ConfigError if a name is not valid."""
    if not name.strip() or not name.isprintable() or len(name) > NAME_MAX:
        raise ConfigError(f"NAME: must be 1 to {NAME_MAX} printable characters")
    if tenant is not None and not TENANT_PATTERN.fullmatch(tenant):
        raise ConfigError(f"--tenant {tenant!r} is not a tenant; use letters, digits and _.:@-")


def _row(token: Token) -> Mapping[str, object]:
    state = "revoked" if token.revoked is not None else "valid"
    if state == "valid" and not token.is_valid(time.time()):
        state = "expired"
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope.value,
        "tenant": token.tenant,
        "state": state,
        "created": rfc3339(token.created),
        "expires": None if token.expires is None else rfc3339(token.expires),
        "last_used": None if token.last_used is None else rfc3339(token.last_used),
    }


def _with_store(ask: Callable[[SqlStore], Awaitable[_T]]) -> _T:
    async def asked() -> _T:
        async with opened_store(load_settings()) as store:
            return await ask(store)

    return asyncio.run(asked())
