"""Values are written for people, and no text or byte can harm the page or deceive its reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.web.pages import filters

NOON = 1_780_747_200.0  #: 2026-06-06 12:00:00 UTC


@given(st.text())
def test_visible_text_is_printable(text: str) -> None:
    """No control character and no bidirectional one is left, in a line or in a block."""
    assert filters.visible(text).isprintable()
    assert all(line.replace("\t", "").isprintable() for line in filters.block(text).split("\n"))


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_ordinary_text_stays(text: str) -> None:
    """ASCII text is shown unchanged."""
    assert filters.visible(text) == text


def test_piled_up_marks_are_escaped() -> None:
    """A letter keeps three marks; further ones would cover other lines."""
    shown = filters.visible("e" + "\u0301" * 5)

    assert shown == "e" + "\u0301" * 3 + "\\u0301\\u0301"


@given(st.binary(max_size=200))
def test_any_bytes_can_be_shown(body: bytes) -> None:
    """Bytes are shown as text or as a hex dump; neither contains a control character."""
    shown = filters.content(body)

    assert shown.text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize(
    ("body", "is_hex"),
    [
        (b'{"a": 1}\n', False),
        ("Zoë".encode(), False),
        ("Zoë".encode()[:-1], False),  # cut within its last character
        (b"\xff\x00\x01", True),
        (b"a\x00b", True),
        (b"\x1b[31m", True),
    ],
)
def test_binary_is_shown_as_hex(body: bytes, is_hex: bool) -> None:
    """Text stays text; all else is a hex dump."""
    assert filters.content(body).is_hex is is_hex


def test_a_hex_dump_has_offset_digits_and_text() -> None:
    """Each line shows sixteen bytes."""
    assert filters.hex_dump(b"Leveret\x00\xff123456789").splitlines() == [
        "000000  4c 65 76 65 72 65 74 00  ff 31 32 33 34 35 36 37  Leveret..1234567",
        "000010  38 39                                             89",
    ]


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(None, "–"), (1.0, "100 %"), (0.99996, "99.9 %"), (0.874, "87.4 %"), (0.0, "0 %")],
)
def test_a_share_never_rounds_up_to_all(ratio: float | None, shown: str) -> None:
    """100 % means that nothing failed."""
    assert filters.percent(ratio) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0, "0"), (1_204, "1,204"), (0.44, "0.4"), (362.4, "362")]
)
def test_numbers(value: float | None, shown: str) -> None:
    """A large number has separators, a small one has a decimal, an unknown one is a dash."""
    assert filters.number(value) == shown


@pytest.mark.parametrize(("count", "shown"), [(512, "512 B"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB")])
def test_sizes(count: int, shown: str) -> None:
    """Sizes have decimal units."""
    assert filters.size(count) == shown


def test_times_show_the_date_only_if_it_is_another_day() -> None:
    """A time of today is short, an earlier one has its date, and an impossible one is a number."""
    assert filters.clock_time(NOON - 60, NOON) == "11:59:00"
    assert filters.clock_time(NOON - 86_400, NOON) == "05 Jun 2026 12:00"
    assert filters.clock_time(1e20, NOON) == "1e+20"
    assert filters.full_time(NOON) == "2026-06-06 12:00:00.000 UTC"
    assert filters.full_time(1e20) == "1e+20"
    assert filters.machine_time(1e20) == ""


@pytest.mark.parametrize(
    ("at", "shown"), [(-9, "9 s ago"), (-300, "5 min ago"), (7_300, "in 2 h"), (-200_000, "2 d ago")]
)
def test_ages(at: float, shown: str) -> None:
    """An age has one unit."""
    assert filters.ago(NOON + at, NOON) == shown


def test_durations_counts_and_cuts() -> None:
    """An unknown duration is a dash; a count has its noun; a cut is marked."""
    assert (filters.duration(None), filters.duration(0.071), filters.duration(-1)) == ("–", "71 ms", "0 ms")
    assert filters.counted(1, "entry", "entries") == "1 entry"
    assert filters.counted(1_200, "entry", "entries") == "1,200 entries"
    assert filters.brief("abcdef", 3) == "abc…"
    assert filters.brief("abc", 3) == "abc"
