"""Tokens are stored by their hash alone; their life is in the audit log."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from consumer.core.store.audit import AuditFilter
from consumer.core.store.tokens import Scope, parse_token
from tests.support.stores import Place, apply, execute, shop, take_back


async def test_a_token_is_made_found_used_and_revoked(place: Place) -> None:
    """Another process sees each step; the second revocation changes nothing."""
    tokens = place.open().records.tokens
    other = place.open().records.tokens

    made, text = await tokens.create("shop", Scope.OPERATE, tenant="acme", expires=9e9, who="cli:me")
    presented = parse_token(text)
    assert presented is not None
    stored = await other.get(presented.id)
    assert stored is not None
    assert stored.token == made
    assert stored.accepts(presented.secret, 1.0)
    assert not stored.accepts(presented.secret, 9e9), "it has expired"
    assert not stored.accepts("x" + presented.secret[1:] + "y", 1.0)
    await other.note_used({made.id: 50.0, "no-such": 1.0})
    await other.note_used({made.id: 40.0})
    [listed] = await tokens.all()
    assert listed.last_used == 50.0

    revoked, is_changed = await tokens.revoke(made.id, "cli:me")
    assert is_changed
    assert revoked is not None
    assert not revoked.is_valid(1.0)
    assert (await tokens.revoke(made.id, "cli:me"))[1] is False
    assert await tokens.revoke("no-such", "cli:me") == (None, False)
    lines = await place.open().records.audit.lines(AuditFilter(target=made.id), 10)
    assert [line.change.action for line in lines] == ["token.revoked", "token.created"]


async def test_no_secret_of_a_token_is_in_the_file(sql_place: Place) -> None:
    """Whoever reads the database, or a backup of it, cannot use the API."""
    _, text = await sql_place.open().records.tokens.create("shop", Scope.READ, who="cli:me")

    with closing(sqlite3.connect(sql_place.file)) as connection:
        dump = "\n".join(connection.iterdump())

    assert text.split("_")[1] in dump
    assert text.split("_")[2] not in dump


async def test_a_store_of_an_earlier_release_has_no_tokens(place: Place) -> None:
    """A look neither fails nor migrates; the first token makes the tables."""
    store = place.open()
    await apply(store, shop())
    await take_back(place, "0008")
    fresh = place.open()

    assert await fresh.records.tokens.all() == ()
    assert await fresh.records.tokens.get("0" * 12) is None
    assert await fresh.records.audit.lines(AuditFilter(), 10) == ()
    await fresh.records.tokens.create("shop", Scope.READ, who="cli:me")
    assert len(await fresh.records.tokens.all()) == 1
    await execute(place, "SELECT 1")
