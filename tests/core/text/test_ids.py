"""The ids that become ``webhook-id``: valid characters, hashes and UUIDs."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.text import ids


@given(st.text())
def test_every_id_is_safe_to_sign_and_send(text: str) -> None:
    """SW-06, fault 9: no id has a full stop, line break or space, for every text of a producer."""
    made = ids.event_id(text)

    assert ids.is_event_id(made)
    assert made == ids.event_id(text)


@pytest.mark.parametrize("text", ["a.b", "a\r\nb", "x" * 300, "", "ä", "a b", "abc\n", "\ud800"])
def test_unfit_ids_are_hashed(text: str) -> None:
    """Fault 9: an invalid message_id becomes msg_ and 27 characters of its SHA-256."""
    made = ids.event_id(text)

    assert made.startswith("msg_")
    assert len(made) == 31


def test_the_hash_is_the_documented_one() -> None:
    """SW-03: all versions make the same id, in lower-case base32 of SHA-256."""
    digest = hashlib.sha256(b"/shop\0A.1").digest()
    bits = int.from_bytes(digest, "big") >> (256 - 135)
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    expected = "".join(alphabet[bits >> shift & 31] for shift in range(130, -1, -5))

    assert ids.hashed_id(b"/shop", b"A.1") == "msg_" + expected


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_uuid7_is_one(unix_ms: int, random: bytes) -> None:
    """RFC 9562 5.7: version, variant and time are in their places, and the text is a valid id."""
    text = ids.uuid7(unix_ms, random)

    parsed = uuid.UUID(text)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == unix_ms
    assert ids.is_event_id(text)


def test_uuid7_of_the_rfc() -> None:
    """RFC 9562, appendix A.6: the result equals the published example."""
    bits = (0xCC3 << 68) | 0x18C4DC0C0C07398F  # the first 12 and the last 62 of 80 bits

    text = ids.uuid7(0x017F22E279B0, bits.to_bytes(10, "big"))

    assert text == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_uuid7_uses_every_random_bit() -> None:
    """Two ids of one millisecond differ if any of their 74 random bits differ."""
    one = {ids.uuid7(0, (1 << bit).to_bytes(10, "big")) for bit in [*range(62), *range(68, 80)]}

    assert len(one) == 74


@pytest.mark.parametrize(("unix_ms", "random"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9))])
def test_uuid7_refuses_values_that_do_not_fit(unix_ms: int, random: bytes) -> None:
    """An argument out of range raises ValueError."""
    with pytest.raises(ValueError, match=r"bits|bytes"):
        ids.uuid7(unix_ms, random)
