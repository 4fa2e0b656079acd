"""The examination of a captured webhook: the signature that matches, or the exact fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadSignature, ConfigError
from consumer.core.webhook.capture import parse_headers, parse_request
from consumer.core.webhook.signing import VerifyingKey, parse_secret, parse_verifying_key, sign, verify
from consumer.core.webhook.verification import Finding, Match, examine
from tests.support.builders.subscriptions import secret_of
from tests.support.data import DATA

PRIVATE = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
NEW, OLD = parse_secret(secret_of("new")), parse_secret(secret_of("old"))
BODY = b'{"type":"a","data":{"n":1}}'
AT = 1_700_000_000
VECTORS = json.loads((DATA / "signatures.json").read_text())


def headers(*keys: str, body: bytes = BODY) -> dict[str, str]:
    """Return the headers of a webhook that *keys* signed."""
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(AT),
        "webhook-signature": sign([parse_secret(key) for key in keys], "msg_1", AT, body),
    }


def look(
    given: Mapping[str, str], *keys: VerifyingKey, body: bytes = BODY, age_s: float = 1.0, **more: Any
) -> Finding:
    """Return the finding for a webhook examined *age_s* after signing."""
    return examine(keys or (NEW,), given, body, AT + age_s, **more)


def test_it_says_which_signature_fits_which_key() -> None:
    """During a rotation either key matches; positions count from 1."""
    given = headers(secret_of("new"), secret_of("old"), PRIVATE)

    assert look(given, NEW).matches == [Match(1, "v1", 1)]
    assert look(given, parse_secret(secret_of("else")), OLD).matches == [Match(2, "v1", 2)]
    assert look(given, parse_verifying_key(PUBLIC)).matches == [Match(3, "v1a", 1)]
    assert look(given).fault is None


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_every_published_vector_verifies(vector: dict[str, Any]) -> None:
    """SW-05..08: the vectors of the specification's libraries verify."""
    found = examine(
        [parse_verifying_key(vector["secret"])],
        {
            "Webhook-Id": vector["id"],
            "Webhook-Timestamp": str(vector["timestamp"]),
            "Webhook-Signature": vector["signature"],
        },
        vector["body"].encode(),
        vector["timestamp"],
    )

    assert found.fault is None


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_a_missing_header_is_named(name: str) -> None:
    """SW-02: a missing header is named."""
    given = headers(secret_of("new"))
    del given[f"webhook-{name}"]

    with pytest.raises(BadSignature, match=f"the header webhook-{name} is missing"):
        look(given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"signature": "v1,!!"}, "entry 1 of webhook-signature is not a signature"),
        ({"signature": "v1,AAAA  v1,AAAA"}, "entry 2 of webhook-signature is not a signature"),
        ({"signature": "v1a,AAAA"}, "signed with v1a, but the given secret is for v1;"),
        ({"signature": "v1,AAAA"}, "none of 1 signature(s) matches: another secret signed"),
        ({"id": "msg_2"}, "id, timestamp or body were changed"),
        ({"timestamp": str(AT + 1)}, "id, timestamp or body were changed"),
    ],
)
def test_faults_are_reported(changes: dict[str, str], expected: str) -> None:
    """The fault names the exact cause."""
    changed = {f"webhook-{name}": value for name, value in changes.items()}

    found = look(headers(secret_of("new")) | changed)

    assert found.matches == []
    assert expected in str(found.fault)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BODY + b"\n", "ends with a line break"),
        (BODY + b"\r\n", "ends with a line break"),
        (json.dumps(json.loads(BODY), indent=2).encode(), "parsed and rewritten"),
        (BODY + b" x", "another secret signed"),
    ],
)
def test_a_body_that_was_changed_on_the_way_is_recognised(body: bytes, expected: str) -> None:
    """Common accidents with the body are named, with the remedy."""
    assert expected in str(look(headers(secret_of("new")), body=body).fault)


def test_line_breaks_that_were_turned_are_recognised() -> None:
    """A body whose line breaks were converted is recognised."""
    body = b'{\n"a":1\n}'

    found = look(headers(secret_of("new"), body=body), body=body.replace(b"\n", b"\r\n"))

    assert "turned into CRLF" in str(found.fault)


@pytest.mark.parametrize(("age_s", "way"), [(301, "301 s old"), (-301, "301 s in the future")])
def test_age_is_shown_and_judged(age_s: float, way: str) -> None:
    """Receivers accept 300 s in either direction; the limit can be waived for an older capture."""
    given = headers(secret_of("new"))

    assert way in str(look(given, age_s=age_s).fault)
    assert look(given, age_s=age_s).matches
    assert look(given, age_s=age_s, tolerance_s=None).fault is None
    assert look(given, age_s=age_s, tolerance_s=301.0).fault is None


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]),
        st.text(max_size=30) | st.just(str(AT)) | st.just(headers(secret_of("new"))["webhook-signature"]),
    ),
    st.binary(max_size=40) | st.just(BODY),
)
def test_it_never_says_yes_where_a_receiver_says_no(given: dict[str, str], body: bytes) -> None:
    """The examination agrees with the check that receivers make."""
    try:
        verify([NEW], given, body, float(AT))
        right = True
    except BadSignature:
        right = False

    try:
        found = look(given, body=body, age_s=0).fault is None
    except BadSignature:
        found = False

    assert found == right


# captured requests


@pytest.mark.parametrize(
    "text",
    [
        "webhook-id: msg_1\nwebhook-timestamp: 5",
        "POST /x HTTP/1.1\r\nWebhook-Id: msg_1\r\nWebhook-Timestamp:5\r\n",
        "> POST / HTTP/1.1\n> webhook-id: msg_1\n> webhook-timestamp: 5\n>",
        '{"Webhook-Id": "msg_1", "webhook-timestamp": ["5"]}',
    ],
)
def test_headers_come_in_many_forms(text: str) -> None:
    """Headers are read as proxies, curl and frameworks log them."""
    found = parse_headers(text)

    assert {name: found[name] for name in ("webhook-id", "webhook-timestamp")} == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "5",
    }


def test_a_request_is_split_at_its_first_blank_line() -> None:
    """SW-05: the body is exactly the bytes after the first blank line."""
    found, body = parse_request(b"POST / HTTP/1.1\r\nwebhook-id: m\r\n\r\nab\r\n\r\n\xff")

    assert found == {"webhook-id": "m"}
    assert body == b"ab\r\n\r\n\xff"


@pytest.mark.parametrize("raw", [b"", b"webhook-id: m", b"nothing\n\nx", b'{"a":\n\n'])
def test_an_invalid_request_is_reported(raw: bytes) -> None:
    """The error names the required form."""
    with pytest.raises(ConfigError, match=r"(has no blank line|contains no headers)"):
        parse_request(raw)
