"""Signatures: the published vectors, refusals, and agreement with the reference verifier."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from consumer.core.errors import BadSignature, ConfigError
from consumer.core.webhook.signing import (
    Ed25519Key,
    HmacKey,
    PublicKey,
    format_public,
    format_secret,
    parse_secret,
    parse_verifying_key,
    sign,
    verify,
)
from tests.support.data import DATA

VECTORS: list[dict[str, Any]] = json.loads((DATA / "signatures.json").read_text())
A = VECTORS[0]
C = VECTORS[2]
PUBLIC_C = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
GOOD_A: str = A["signature"]
secrets = st.binary(min_size=24, max_size=64)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


def headers(signature: str | None = GOOD_A, **changed: str | None) -> dict[str, str]:
    """Return vector A's headers; ``id=None`` leaves one out."""
    parts = {"id": A["id"], "timestamp": str(A["timestamp"]), "signature": signature} | changed
    return {f"webhook-{name}": value for name, value in parts.items() if value is not None}


def check_a(signature: str = GOOD_A, *, now: float = A["timestamp"], **changed: str | None) -> None:
    """Verify vector A with changes."""
    verify([parse_secret(A["secret"])], headers(signature, **changed), A["body"].encode(), now)


def verifies(check: Callable[[], object]) -> bool:
    """Return whether a check succeeds."""
    try:
        check()
    except (BadSignature, WebhookVerificationError):
        return False
    return True


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_signs_every_published_vector(vector: dict[str, Any]) -> None:
    """SW-05, SW-07: the signatures of vectors A to H are equal byte for byte, and verify."""
    key = parse_secret(vector["secret"])
    body = vector["body"].encode()

    signature = sign([key], vector["id"], vector["timestamp"], body)

    assert signature == vector["signature"]
    sent = {"webhook-id": vector["id"], "webhook-timestamp": str(vector["timestamp"])}
    verify([key], sent | {"webhook-signature": signature}, body, vector["timestamp"])


@given(secrets, ids, st.text(st.characters(exclude_categories=["Cs"])))
def test_reference_verifier_accepts_our_signatures(raw: bytes, event_id: str, text: str) -> None:
    """SW-05, SW-08: the PyPI verifier accepts any id and body, signed by two keys, with either key alone."""
    now = int(time.time())
    old = bytes(reversed(raw)) + b"old"
    signature = sign([HmacKey(raw), HmacKey(old)], event_id, now, text.encode())
    sent = {"webhook-id": event_id, "webhook-timestamp": str(now), "webhook-signature": signature}

    for secret in (raw, old):
        assert verifies(partial(Webhook(secret).verify, text.encode(), sent, json_parse=False))


@given(st.binary(), secrets)
def test_any_other_body_fails(body: bytes, raw: bytes) -> None:
    """SW-05: the signature covers the exact bytes, text or not."""
    key = HmacKey(raw)
    sent = {"webhook-id": "m", "webhook-timestamp": "5", "webhook-signature": sign([key], "m", 5, body)}

    verify([key], sent, body, 5)
    with pytest.raises(BadSignature):
        verify([key], sent, body + b"x", 5)


def test_rotation_lists_newest_first_with_single_spaces() -> None:
    """SW-08, SW-31, SW-32: one entry per key, in order, with mixed versions and single spaces."""
    new, old = parse_secret(A["secret"]), parse_secret(C["secret"])

    signature = sign([new, old], A["id"], A["timestamp"], A["body"].encode())

    assert signature == f"{A['signature']} {C['signature']}"
    assert re.fullmatch(r"v1,\S+ v1a,\S+", signature)


def test_public_key_alone_verifies() -> None:
    """SW-07, SW-10: a receiver needs only the ``whpk_`` key, which belongs to the ``whsk_`` key."""
    private = parse_secret(C["secret"])
    assert isinstance(private, Ed25519Key)
    assert format_public(private) == PUBLIC_C
    public = parse_verifying_key(PUBLIC_C)
    assert isinstance(public, PublicKey)

    verify([public], headers(C["signature"]), A["body"].encode(), A["timestamp"])
    with pytest.raises(BadSignature):
        verify([public], headers(C["signature"]), b"{}", A["timestamp"])


@pytest.mark.parametrize(
    "signature",
    [
        GOOD_A[:-2] + "A=",
        "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=",
        "v1,dawfeoifkpqwoekfpqoekf",
        "v1,",
        "v1",
        "",
        " ",
        ",",
        GOOD_A[: 3 + 8],
        GOOD_A[:-1],
        GOOD_A.replace("v1,", "v2,"),
        GOOD_A.replace("v1,", "v1a,"),
        GOOD_A.removeprefix("v1,"),
        GOOD_A.replace(",", " ,"),
        C["signature"],
        "v1,\u00e9\u00e9",
    ],
)
def test_refuses_wrong_signatures(signature: str) -> None:
    """The negative vectors of the libraries: a wrong, partial, misnamed or foreign entry does not verify."""
    with pytest.raises(BadSignature):
        check_a(signature)


@pytest.mark.parametrize(
    "signature", ["v1a,", "v1a,AAAA", "v1a,%%%", C["signature"][:-4], C["signature"].replace("v1a", "v1")]
)
def test_refuses_wrong_ed25519_signatures(signature: str) -> None:
    """SW-07: a partial or garbled ``v1a`` entry is refused without an error of the crypto library."""
    with pytest.raises(BadSignature):
        verify([parse_verifying_key(PUBLIC_C)], headers(signature), A["body"].encode(), A["timestamp"])


@pytest.mark.parametrize(
    "signature", [f"v1,bad v2,bad {GOOD_A} v1,bad", f"v1,  {GOOD_A}", f"nonsense {GOOD_A}", f"{GOOD_A} "]
)
def test_one_good_entry_is_enough(signature: str) -> None:
    """SW-08: one good entry is enough, even with bad entries or extra spaces around it."""
    assert verifies(lambda: check_a(signature))


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
@pytest.mark.parametrize("value", [None, ""])
def test_refuses_missing_headers(name: str, value: str | None) -> None:
    """SW-02: each of the three headers is required."""
    with pytest.raises(BadSignature, match=f"webhook-{name} is missing"):
        verify([parse_secret(A["secret"])], headers(**{name: value}), b"", A["timestamp"])


@pytest.mark.parametrize(
    "timestamp", ["hello", "1614265330.0", "-1", "+1614265330", "1614265330 ", "١٦١٤", "9" * 40]
)
def test_refuses_timestamps_that_are_no_integer(timestamp: str) -> None:
    """SW-04: the timestamp is a whole number in ASCII digits."""
    with pytest.raises(BadSignature, match="whole number"):
        check_a(timestamp=timestamp)


@pytest.mark.parametrize(("off_s", "good"), [(300, True), (-300, True), (301, False), (-301, False)])
def test_tolerance_is_five_minutes_either_way(off_s: int, good: bool) -> None:
    """A difference of 300 s passes in either direction; 301 s does not."""
    assert verifies(lambda: check_a(now=A["timestamp"] + off_s)) is good
    if not good:
        with pytest.raises(BadSignature, match="300 s off"):
            check_a(now=A["timestamp"] + off_s)


def test_header_names_may_have_any_case() -> None:
    """SW-02: header names may have any case."""
    upper = {name.upper(): value for name, value in headers().items()}

    key = parse_secret(A["secret"])
    assert verifies(lambda: verify([key], upper, A["body"].encode(), A["timestamp"]))


def test_changed_id_fails() -> None:
    """SW-05: the signature covers the id."""
    with pytest.raises(BadSignature, match="matches any key"):
        check_a(id="msg_other")


@given(secrets)
def test_secrets_survive_a_round_trip(raw: bytes) -> None:
    """SW-09, SW-11: 24 to 64 bytes are written with padding and read with or without it."""
    text = format_secret(raw)

    assert text == "whsec_" + base64.b64encode(raw).decode()
    assert parse_secret(text) == HmacKey(raw)
    assert parse_secret(text.rstrip("=")) == HmacKey(raw)


def test_unpadded_vector_is_read() -> None:
    """SW-11: the unpadded 25-byte secret of the reference libraries is accepted."""
    key = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr")

    assert isinstance(key, HmacKey)
    assert len(key.secret) == 25


@pytest.mark.parametrize("length", [24, 64])
def test_bare_text_is_taken_as_raw_bytes(length: int) -> None:
    """S0-4: a secret without a prefix is used as raw bytes, 24 to 64 of them."""
    text = "s3cret-" + "x" * (length - 7)

    assert parse_secret(text) == HmacKey(text.encode())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has 0"),
        ("w", "has 1"),
        ("mi-secreto-super-seg", "has 20 as written; leave the secret out"),
        ("x" * 23, "has 23"),
        ("x" * 65, "has 65"),
        ("é" * 33, "has 66"),
        ("whsec_", "has 0"),
        ("whsec_%", "not standard base64"),
        ("whsec_wronglength", "has 8"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "has 23 after decoding"),
        ("whsec_bm90LXZhbGlkCg==", "has 10"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "has 65"),
        ("whsec_" + base64.b64encode(bytes(76)).decode(), "has 76"),
        ("whsec_" + base64.urlsafe_b64encode(b"\xff" * 30).decode(), "not standard base64"),
        ("whsec_" + base64.b64encode(bytes(24)).decode() + "====", "wrong padding"),
        ("whsec_" + base64.b64encode(bytes(25)).decode()[:-1], "wrong padding"),
        ("whsec_" + base64.b64encode(bytes(24)).decode() + "\n", "not standard base64"),
        ("whsec_ÄÄÄÄ" + "A" * 32, "not standard base64"),
        ("hwsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "misspelt"),
        ("WHSEC_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "misspelt"),
        ("x" * 30 + "\n", "line breaks"),
        (" " + "x" * 30, "line breaks"),
        (PUBLIC_C, "public and cannot sign"),
        ("whsk_" + base64.b64encode(bytes(32)).decode(), "has 32"),
        ("whsk_" + base64.b64encode(base64.b64decode(C["secret"][5:])[:-1]).decode(), "has 63"),
        ("whsk_%", "not standard base64"),
        (C["secret"][:-8] + "AAAAAA==", "does not belong"),
    ],
)
def test_refuses_bad_secrets(text: str, fault: str) -> None:
    """SW-09 to SW-11, fault 29: every bad secret is refused with its fault, and never printed."""
    with pytest.raises(ConfigError, match=re.escape(fault)) as caught:
        parse_secret(text)

    assert len(text) < 10 or text[6:] not in str(caught.value)


def test_refuses_bad_public_keys() -> None:
    """SW-10: a ``whpk_`` key has 32 bytes."""
    with pytest.raises(ConfigError, match="32 bytes"):
        parse_verifying_key("whpk_" + base64.b64encode(bytes(31)).decode())


def test_secrets_never_show() -> None:
    """No repr of a key contains its secret."""
    raw = b"0123456789abcdefghijklmnop"
    shown = repr([HmacKey(raw), Ed25519Key(raw[:24] + b"qrstuvwx")])

    assert "0123" not in shown
    assert "30313233" not in shown


def test_never_signs_without_a_key_or_with_an_ambiguous_id() -> None:
    """SW-06, fault 69: no webhook is unsigned, and no id can shift the signed parts."""
    key = HmacKey(bytes(24))

    with pytest.raises(ValueError, match="unsigned"):
        sign([], "m", 1, b"")
    with pytest.raises(ValueError, match="full stop"):
        sign([key], "m.1", 1, b"")
    with pytest.raises(ValueError, match="ascii"):
        sign([key], "é", 1, b"")
