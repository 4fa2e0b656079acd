"""The description of a change, and exports that can be applied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from consumer.core.changes.diff import differences
from consumer.core.changes.export import as_yaml, export_document
from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import StoredEntry, merge
from tests.support.builders.subscriptions import (
    AUTH,
    AUTHORITY,
    RULES,
    TLS,
    counting,
    entry,
    kept,
    kept_sets,
    secret_of,
)


def changes(before: dict[str, object], after: dict[str, object]) -> list[tuple[str, object, object]]:
    """Return the differences of two forms of one entry."""
    [old], [new] = kept(entry("shop") | before), kept(entry("shop") | after)
    return [(change.field, change.old, change.new) for change in differences(old, new)]


def test_each_field_is_named_with_its_two_values() -> None:
    """``apply --dry-run`` shows each changed field by its path, with both values."""
    assert changes({}, {"timeout_s": 3, "retry": {"policy": "linear"}}) == [
        ("retry.policy", None, "linear"),
        ("timeout_s", None, 3.0),
    ]
    assert changes({"breaker": {"failures": 2}, "enabled": False}, {"on_status": {"404": "park"}}) == [
        ("on_status.404", None, "park"),
        ("breaker.failures", 2, None),
        ("enabled", False, None),
    ]
    assert changes({}, {}) == []


def test_nothing_secret_is_in_it() -> None:
    """Secrets, header values and URL queries are only shown to differ."""
    found = changes(
        {
            "secrets": [secret_of("hush")],
            "headers": {"authorization": "hush"},
            "url": "https://a.example/?k=hush",
        },
        {
            "secrets": [secret_of("hush2")],
            "headers": {"authorization": "hush2"},
            "url": "https://a.example/?k=x",
        },
    )

    assert found == [
        ("url", "https://a.example/?***", "https://a.example/?***"),
        ("secrets", "1 x ***", "1 x ***"),
        ("headers.authorization", "***", "***"),
    ]


@given(kept_sets())
def test_no_value_of_a_secret_or_header_ever_shows(entries: Sequence[StoredEntry]) -> None:
    """No added or removed value of a secret or header is shown."""
    for one in entries:
        text = repr(differences(None, one)) + repr(differences(one, None))
        assert "hush" not in text
        assert not any(secret.get_secret_value() in text for secret in one.secrets)
        assert "PRIVATE KEY" not in text


@given(kept_sets())
def test_an_export_applied_again_changes_nothing(entries: Sequence[StoredEntry]) -> None:
    """An export that is applied again changes nothing, with or without secrets."""
    for secrets in (False, True):
        text = as_yaml(export_document(entries, secrets=secrets))

        again = merge(entries, parse_subscriptions(text, "f", RULES).entries, counting(), prune=True)

        assert [one.document() for one in again.entries] == [one.document() for one in entries]
        assert [*again.changed, *again.added, *again.removed, *again.generated] == []
        has = [bool(one.credentials()) for one in entries]
        assert ("sesame" in text or "PRIVATE KEY" in text) == (secrets and any(has))
        shown = [secret.get_secret_value() in text for one in entries for secret in one.secrets]
        assert shown == [secrets] * len(entries)


@given(kept_sets())
def test_an_export_with_secrets_moves_everything(entries: Sequence[StoredEntry]) -> None:
    """An export with secrets gives the same entries in an empty store, without old notes."""
    text = as_yaml(export_document(entries, secrets=True))

    moved = merge((), parse_subscriptions(text, "f", RULES).entries, counting())

    bare = {"disabled_reason": None, "disabled_at": None}
    assert [e.document() for e in moved.entries] == [e.model_copy(update=bare).document() for e in entries]


OAUTH2 = {"token_url": "https://id.example/t?k=hush2", "client_id": "app", "client_secret": "hush"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            {"basic": {"username": "u", "password": "hush"}},
            {"basic": {"username": "u", "password": "hush2"}},
            [("auth.basic.password", "***", "***")],
        ),
        ({"bearer": "hush"}, {"bearer": "hush2"}, [("auth.bearer", "***", "***")]),
        (
            {"bearer": "hush"},
            {"basic": {"username": "u", "password": "hush"}},
            [
                ("auth.basic.password", None, "***"),
                ("auth.basic.username", None, "u"),
                ("auth.bearer", "***", None),
            ],
        ),
        (
            AUTH["oauth2"],
            {"oauth2": OAUTH2},
            [
                ("auth.oauth2.client_auth", "post", None),
                ("auth.oauth2.client_secret", "***", "***"),
                ("auth.oauth2.scope", "a b", None),
                ("auth.oauth2.token_url", "https://id.example/t?***", "https://id.example/t?***"),
            ],
        ),
    ],
)
def test_a_changed_credential_is_reported_and_not_shown(
    before: Mapping[str, object], after: Mapping[str, object], expected: list[tuple[str, object, object]]
) -> None:
    """A dry run names a changed password, token or client secret without its value."""
    assert changes({"auth": before}, {"auth": after}) == expected


def test_certificates_are_told_by_whose_they_are() -> None:
    """Certificates are shown by subject, end and fingerprint; a key only as changed."""
    other = AUTHORITY.pair("other.example")
    found = changes({"tls": TLS["pair"]}, {"tls": {"certificate": other.certificate, "key": other.key}})

    assert [field for field, _, _ in found] == ["tls.certificate", "tls.key"]
    assert str(found[0][1]).startswith("CN=leveret until 20")
    assert str(found[0][2]).startswith("CN=other.example until 20")
    assert "SHA-256" in str(found[0][2])
    assert found[1][1:] == ("***", "***")
    assert "BEGIN" not in str(found)
