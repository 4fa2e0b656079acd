"""A mask in a subscriptions file keeps the stored secret, and is never stored as a secret."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from consumer.core.changes.export import as_yaml, export_document
from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import StoredEntry, merge
from consumer.core.errors import ConfigError
from consumer.core.subscription.access_entry import ACCOUNT_FIELDS
from consumer.core.subscription.entry import CREDENTIALS
from consumer.core.text.printable import MASK
from tests.support.builders.subscriptions import (
    AUTH,
    AUTHORITY,
    PAIR,
    RULES,
    TLS,
    counting,
    entry,
    kept,
    parsed,
)

EVERY = [
    {key: value for key, value in (("auth", auth), ("tls", tls)) if value is not None}
    for auth, tls in itertools.product((None, *AUTH.values()), (None, *TLS.values()))
]
OAUTH2 = {"token_url": "https://id.example/t?k=hush", "client_id": "app", "client_secret": MASK}


def faults(entries: Sequence[StoredEntry], *files: Mapping[str, object]) -> list[str]:
    """Return the lines of the refusal of a file."""
    with pytest.raises(ConfigError) as raised:
        merge(entries, parsed(*files), counting())
    return str(raised.value).splitlines()


@pytest.mark.parametrize("fields", EVERY, ids=range(len(EVERY)))
def test_an_export_says_of_each_secret_only_that_it_is_there(fields: dict[str, Any]) -> None:
    """An export without secrets changes nothing in its own store; an empty store asks for each secret.

    An export with secrets is accepted by an empty store as a whole.
    """
    [one] = stored = kept(entry(**fields))
    bare, full = (as_yaml(export_document(stored, secrets=secrets)) for secrets in (False, True))
    of_bare, of_full = (parse_subscriptions(text, "f", RULES).entries for text in (bare, full))

    same = merge(stored, of_bare, counting(), prune=True)
    moved = merge((), of_full, counting())

    assert "sesame" not in bare
    assert "PRIVATE KEY" not in bare
    assert [*same.changed, *same.added, *same.removed, *same.generated] == []
    assert [e.document() for e in (*same.entries, *moved.entries)] == [one.document()] * 2
    if one.credentials():
        with pytest.raises(ConfigError) as raised:
            merge((), of_bare, counting())
        fault = "*** keeps the stored secret, but none is stored; write the secret itself"
        assert str(raised.value).splitlines() == [f"acme/shop: {p}: {fault}" for p in one.credentials()]


@pytest.mark.parametrize(
    ("had", "wanted", "fault"),
    [
        (
            {"auth": AUTH["basic"]},
            {"auth": {"basic": {"username": "eve", "password": MASK}}},
            "auth.basic.password: the stored secret belongs to another username",
        ),
        (
            {"auth": AUTH["oauth2"]},
            {"auth": {"oauth2": OAUTH2 | {"token_url": "https://eve.example/t"}}},
            "auth.oauth2.client_secret: the stored secret belongs to another token_url and client_id",
        ),
        (
            {"auth": AUTH["oauth2"]},
            {"auth": {"oauth2": OAUTH2 | {"client_id": "other"}}},
            "auth.oauth2.client_secret: the stored secret belongs to another token_url and client_id",
        ),
        (
            {"tls": TLS["pair"]},
            {"tls": {"certificate": AUTHORITY.pair("x").certificate, "key": MASK}},
            "tls.key: the stored secret belongs to another certificate",
        ),
        ({"auth": AUTH["basic"]}, {"auth": {"bearer": MASK}}, "auth.bearer: *** keeps the stored secret"),
        ({"tls": TLS["ca"]}, {"tls": {**TLS["pair"], "key": MASK}}, "tls.key: *** keeps the stored secret"),
    ],
)
def test_a_kept_secret_is_never_used_for_another(
    had: dict[str, Any], wanted: dict[str, Any], fault: str
) -> None:
    """A password stays with its user, a secret with its server, and a key with its certificate."""
    (line,) = faults(kept(entry(**had)), entry(**wanted))

    assert line.startswith(f"acme/shop: {fault}")
    assert line.endswith("; write the secret itself")
    assert "eve" not in line


def test_fields_beside_a_kept_secret_may_change() -> None:
    """URL, scope and authorities may change; the secret stays."""
    old = kept(entry("shop", auth=AUTH["oauth2"], tls=TLS["pair"]))
    changed = entry(
        "shop",
        url="https://new.example/",
        auth={"oauth2": OAUTH2 | {"scope": "c"}},
        tls={"ca": AUTHORITY.pem, "certificate": PAIR.certificate, "key": MASK},
    )

    [now] = merge(old, parsed(changed), counting()).changed

    assert now.credentials() == old[0].credentials()
    assert now.auth is not None
    assert now.auth.oauth2 is not None
    assert now.auth.oauth2.scope == "c"


def test_every_mask_without_a_secret_is_reported_at_once() -> None:
    """Each mask without a stored secret is one line of the error, and nothing is stored."""
    masked: Any = {"auth": {"bearer": MASK}}
    lines = faults((), entry("shop", **masked, tls={**TLS["pair"], "key": MASK}), entry("b", **masked))

    assert [line.split(": ")[:2] for line in lines] == [
        ["acme/shop", "auth.bearer"],
        ["acme/shop", "tls.key"],
        ["acme/b", "auth.bearer"],
    ]


def test_of_every_secret_it_is_known_whose_it_is() -> None:
    """Every kind of credential names the fields that identify its account."""
    assert ACCOUNT_FIELDS.keys() == {".".join(path) for path in CREDENTIALS}
