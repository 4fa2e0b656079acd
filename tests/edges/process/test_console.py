"""Lines for people: short, with the important fields first, and safe on any terminal."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from consumer.edges.process.console import DETAIL_MAX, MARGIN, VALUE_MAX, draw

NOW = datetime(2026, 11, 29, 12, 32, 13, 123_456, tzinfo=UTC)
ATTEMPT: dict[str, object] = {
    "event": "delivery.attempted",
    "event_id": "ord-1",
    "subscription_id": "sub_0123456789abcdef",
    "tenant": "acme",
    "subscription": "acme/shop",
    "attempt": 2,
    "status": None,
    "duration_s": 0.03125,
    "error": "",
}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


def line(*, is_terminal: bool = False, **fields: object) -> str:
    """Draw a warning."""
    return draw("warning", NOW, {"event": "x.failed", **fields}, is_terminal=is_terminal)


def test_time_level_event_and_subscription_come_first() -> None:
    """Then the fields that have a value; the tenant and the id are in the name of the subscription."""
    drawn = draw("info", NOW, ATTEMPT, is_terminal=False)

    assert drawn == (
        "2026-11-29T12:32:13.123Z info    delivery.attempted acme/shop "
        "event_id=ord-1 attempt=2 duration_s=0.03125"
    )


def test_a_tenant_stands_in_for_a_missing_name() -> None:
    """With its subscription's id, if there is one."""
    drawn = line(tenant="acme", subscription_id="sub_1")

    assert drawn.endswith("x.failed           acme subscription_id=sub_1")


def test_only_a_terminal_gets_colours_and_a_short_time() -> None:
    """A file gets the date too, as nobody sees when a line came."""
    drawn = line(is_terminal=True, tenant="acme", wait_s=1.0)

    plain = re.sub(r"\x1b\[[\d;]*m", "", drawn)
    assert plain != drawn
    assert plain == "12:32:13.123Z warning x.failed           acme (next try in 1 s)"


def test_repeats_are_words() -> None:
    """Item 4 of the observability issue: how often, and when next."""
    assert line(detail="refused", next_try_s=8.0, suppressed=14).endswith(
        "detail=refused (14 more times, next try in 8 s)"
    )
    assert line(wait_s=2.193).endswith("(next try in 2.2 s)")
    assert line(wait_s=0.0, suppressed=0).endswith("x.failed")


def test_long_values_are_cut() -> None:
    """The text of a fault may be longer than other values."""
    drawn = line(url="u" * 999, detail="d" * 999)

    assert drawn.endswith(f"url={'u' * VALUE_MAX}… detail={'d' * DETAIL_MAX}…")


def test_text_with_spaces_cannot_look_like_another_field() -> None:
    """It is quoted, and its own quotes and backslashes are escaped; so are tenants, names and lists."""
    assert line(detail='no "x" level=error').endswith(r'detail="no \"x\" level=error"')
    assert line(detail='x\\" level=error').endswith(r'detail="x\\\" level=error"')
    assert line(tenant="a level=error").endswith(' "a level=error"')
    assert line(allow=["a level=error"]).endswith(""" allow="['a level=error']\"""")
    assert line(detail="d =" * 999, a=1).endswith('…" a=1')


@given(
    st.dictionaries(st.sampled_from(["tenant", "subscription", "detail", "a", "b"]), ANY_TEXT), st.booleans()
)
def test_no_text_controls_a_terminal_or_begins_a_line(fields: dict[str, str], is_terminal: bool) -> None:
    """Fault 51: what is not printable is escaped; only our own colours remain."""
    drawn = line(is_terminal=is_terminal, **fields)

    assert re.sub(r"\x1b\[(1|2|33)m|\x1b\[0m", "", drawn).isprintable()


@given(ANY_TEXT)
def test_a_traceback_stays_behind_its_margin(text: str) -> None:
    """Its lines are readable, and none of them can be taken for a line of the log."""
    first, *others = line(task="job", exception=f"Traceback:\nError: {text}").split("\n")

    assert first.endswith("task=job")
    assert len(others) >= 2
    assert all(each.startswith(MARGIN) and each.isprintable() for each in others)
