"""The display of a change, and the export that can be applied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from consumer.core.changes.diff import differences
from consumer.core.changes.export import as_yaml, exported
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
    """Return what differs between two forms of one entry."""
    [old], [new] = kept(entry("shop") | before), kept(entry("shop") | after)
    return [(change.field, change.old, change.new) for change in differences(old, new)]


def test_each_field_is_named_with_its_two_values() -> None:
    """Apply --dry-run shows the change field by field, inner fields by their path."""
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
    """Rules, secrets: secrets, header values and URL queries are told to differ, and not how."""
    told = changes(
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

    assert told == [
        ("url", "https://a.example/?***", "https://a.example/?***"),
        ("secrets", "1 x ***", "1 x ***"),
        ("headers.authorization", "***", "***"),
    ]


@given(kept_sets())
def test_no_value_of_a_secret_or_header_ever_shows(entries: Sequence[StoredEntry]) -> None:
    """Rules, secrets: whatever is added or removed."""
    for one in entries:
        text = repr(differences(None, one)) + repr(differences(one, None))
        assert "hush" not in text
        assert not any(secret.get_secret_value() in text for secret in one.secrets)
        assert "PRIVATE KEY" not in text


@given(kept_sets())
def test_an_export_applied_again_changes_nothing(entries: Sequence[StoredEntry]) -> None:
    """Export writes a file that apply takes back with no change, with secrets or without."""
    for secrets in (False, True):
        text = as_yaml(exported(entries, secrets=secrets))

        again = merge(entries, parse_subscriptions(text, "f", RULES).entries, counting(), prune=True)

        assert [one.document() for one in again.entries] == [one.document() for one in entries]
        assert [*again.changed, *again.added, *again.removed, *again.generated] == []
        has = [bool(one.credentials()) for one in entries]
        assert ("sesame" in text or "PRIVATE KEY" in text) == (secrets and any(has))
        shown = [secret.get_secret_value() in text for one in entries for secret in one.secrets]
        assert shown == [secrets] * len(entries)


@given(kept_sets())
def test_an_export_with_secrets_moves_everything(entries: Sequence[StoredEntry]) -> None:
    """Into an empty store it gives the same ones, secrets included, without old notes."""
    text = as_yaml(exported(entries, secrets=True))

    moved = merge((), parse_subscriptions(text, "f", RULES).entries, counting())

    bare = {"disabled_reason": None, "disabled_at": None}
    assert [e.document() for e in moved.entries] == [e.model_copy(update=bare).document() for e in entries]


OAUTH2 = {"token_url": "https://id.example/t?k=hush2", "client_id": "app", "client_secret": "hush"}


@pytest.mark.parametrize(
    ("before", "after", "told"),
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
def test_a_changed_credential_is_told_and_not_shown(
    before: Mapping[str, object], after: Mapping[str, object], told: list[tuple[str, object, object]]
) -> None:
    """A dry run says that a password, token or client secret changes, and never which."""
    assert changes({"auth": before}, {"auth": after}) == told


def test_certificates_are_told_by_whose_they_are() -> None:
    """Subject, end and fingerprint instead of PEM text; that the key is another one."""
    other = AUTHORITY.pair("other.example")
    told = changes({"tls": TLS["pair"]}, {"tls": {"certificate": other.certificate, "key": other.key}})

    assert [field for field, _, _ in told] == ["tls.certificate", "tls.key"]
    assert str(told[0][1]).startswith("CN=leveret until 20")
    assert str(told[0][2]).startswith("CN=other.example until 20")
    assert "SHA-256" in str(told[0][2])
    assert told[1][1:] == ("***", "***")
    assert "BEGIN" not in str(told)
