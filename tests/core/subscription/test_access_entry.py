"""The ``tls`` and ``auth`` tables of a subscription: their results and their faults."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from consumer.core.access import Access, OAuth2Client, TlsPolicy
from consumer.core.changes.merge import StoredEntry, merge
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.rules import SubscriptionRules
from tests.support.builders.entries import build, entry, faults, parse
from tests.support.servers.certificates import Authority

OAUTH2 = {"token_url": "https://ID.example:443/t", "client_id": "app", "client_secret": "s3cret-value"}


def test_basic_and_bearer_become_a_header() -> None:
    """Basic is encoded in UTF-8 and Bearer as given; both join the other headers."""
    basic = build(auth={"basic": {"username": "zoë", "password": "p:w"}}, headers={"x-a": "1"})
    bearer = build(auth={"bearer": "abc.DEF-_~+/=="})

    assert basic.headers[0] == ("x-a", "1")
    name, value = basic.headers[1]
    assert (name, b64decode(value.removeprefix("Basic ")).decode()) == ("authorization", "zoë:p:w")
    assert bearer.headers == (("authorization", "Bearer abc.DEF-_~+/=="),)
    assert (basic.access, bearer.access) == (None, None)


def test_oauth2_and_tls_become_an_access(authority: Authority) -> None:
    """The URL is in its normal form; an endpoint without either table has no access."""
    pair = authority.pair("leveret")
    built = build(
        auth={"oauth2": OAUTH2 | {"client_auth": "post", "scope": "a b", "audience": "x"}},
        tls={"ca": authority.pem, "certificate": pair.certificate, "key": pair.key},
    )

    assert built.access == Access(
        tls=TlsPolicy(ca=authority.pem, certificate=pair.certificate, key=pair.key),
        oauth2=OAuth2Client(
            token_url="https://id.example/t",
            client_id="app",
            client_secret="s3cret-value",
            scope="a b",
            audience="x",
            secret_in_body=True,
        ),
    )
    assert build(tls={}).access is None


def test_no_secret_is_shown(authority: Authority) -> None:
    """No repr and no list shows a secret; the stored form has it and reads back the same."""
    pair = authority.pair("leveret")
    secrets = ["s3cret-value", "PRIVATE KEY"]
    tls = {"certificate": pair.certificate, "key": pair.key}
    [read] = parse(entry(auth={"oauth2": OAUTH2}, tls=tls)).entries
    [stored] = merge([], [read], lambda: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").entries
    built = read.build(SubscriptionRules())

    shown = [repr(read), repr(built), repr(stored), json.dumps(read.record())]
    document = json.loads(json.dumps(stored.document()))

    assert not [text for text in shown for secret in secrets if secret in text]
    assert all(secret in json.dumps(document) for secret in secrets)
    assert StoredEntry.model_validate(document) == stored
    basic = build(auth={"basic": {"username": "u", "password": "hidden-pw"}})
    assert "hidden-pw" not in repr(basic)
    assert basic.headers[0][1] not in repr(basic)


@pytest.mark.parametrize(
    ("auth", "fault"),
    [
        ({}, "give exactly one of basic, bearer and oauth2"),
        (
            {"bearer": "a", "basic": {"username": "u", "password": "p"}},
            "give exactly one of basic, bearer and oauth2",
        ),
        ({"bearer": "Bearer abc"}, "without the word Bearer"),
        ({"bearer": "a\r\nX: b"}, "without the word Bearer"),
        ({"basic": {"username": "a:b", "password": "p"}}, "username must have no colon"),
        ({"basic": {"username": "a", "password": "p\n"}}, "control characters"),
        ({"basic": {"username": "a"}}, "is missing; add it"),
        ({"oauth2": OAUTH2 | {"token_url": "https://169.254.169.254/t"}}, "egress.allow"),
        ({"oauth2": OAUTH2 | {"token_url": "http://id.example/t"}}, "egress.allow"),
        ({"oauth2": OAUTH2 | {"token_url": "https://u:p@id.example/t"}}, "user name or password"),
        ({"oauth2": OAUTH2 | {"scope": "a\x00"}}, "must be visible ASCII"),
        ({"oauth2": OAUTH2 | {"client_auth": "none"}}, "must be one of basic, post"),
        ({"digest": {}}, "no such key"),
    ],
)
def test_a_fault_in_auth_is_reported_without_the_secret(auth: dict[str, object], fault: str) -> None:
    """Fault 28: one line names the field and repeats no secret."""
    (line,) = faults(entry(auth=auth))

    assert line.startswith("f:1: subscriptions[0].auth")
    assert fault in line
    assert "s3cret" not in line


def test_faults_in_tls_are_reported(authority: Authority) -> None:
    """Fault 44: invalid certificates, foreign keys, half pairs and http:// endpoints are refused."""
    pair, other = authority.pair("a"), authority.pair("b")
    cases: list[tuple[dict[str, object], str]] = [
        ({"ca": "nonsense"}, "contains no PEM certificate"),
        ({"certificate": pair.certificate}, "must be given together"),
        ({"key": pair.key}, "must be given together"),
        ({"certificate": pair.certificate, "key": other.key}, "does not belong to the first certificate"),
        ({"certificate": pair.certificate, "key": "nonsense"}, "is not a PEM private key"),
        ({"ca": authority.pem * 200}, "at most 65536 long"),
        ({"verify": False}, "no such key"),
    ]
    for tls, fault in cases:
        (line,) = faults(entry(tls=tls))
        assert line.startswith("f:1: subscriptions[0].tls"), line
        assert fault in line
        assert "PRIVATE KEY" not in line
    values = {"url": "http://h.example/", "events": ["#"], "tls": {"ca": authority.pem}}
    with pytest.raises(ValueError, match=r"tls has no effect on an http:// URL"):
        SubscriptionEntry.model_validate(values)


def test_authorization_has_one_place() -> None:
    """Fault 28: ``headers`` and ``auth`` cannot both set the header."""
    (line,) = faults(entry(auth={"bearer": "abc"}, headers={"Authorization": "Bearer x"}))

    assert "auth sets the header authorization" in line
