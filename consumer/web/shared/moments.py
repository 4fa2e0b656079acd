"""Read times and names in requests, and name the field that is not valid."""

from __future__ import annotations

import math

from consumer.core.errors import ConfigError
from consumer.core.subscription.subscription import id_of
from consumer.core.text.durations import parse_moment
from consumer.web.shared.problems import Problem


def moment(text: str | None, field: str, now: float) -> float | None:
    """Return the time that *text* means, in Unix seconds; None for an absent or empty one.

    Args:
        text: RFC 3339, or a duration such as ``2h`` that is counted back from now.
        field: Name of the field, for the error.
        now: Unix seconds.

    Raises:
        Problem: 422: it is neither a time nor a duration.
    """
    if not text:
        return None
    try:
        return parse_moment(text, now)
    except (ConfigError, OverflowError) as error:
        raise Problem(
            422,
            str(error).rpartition("; ")[0] or str(error),
            field=field,
            remedy="2026-01-02T03:04:05Z, or 2h",
        ) from None


def subscription_id(text: str | None) -> str | None:
    """Return the id of the subscription that *text* names by its id or as ``tenant/name``.

    Raises:
        Problem: 422: it is neither.
    """
    if not text:
        return None
    try:
        return id_of(text)
    except ConfigError:
        raise Problem(
            422,
            "it is not a subscription",
            field="subscription",
            remedy="write tenant/name, or its id sub_...",
        ) from None


def place_in(page_after: str | None, separator: str = " ") -> tuple[float, str] | None:
    """Return time and id of the last item of the page before, as :func:`place_text` wrote them.

    Raises:
        Problem: 422: the cursor was changed.
    """
    if page_after is None:
        return None
    at, split, key = page_after.partition(separator)
    try:
        found = float(at)
    except ValueError:
        raise _bad_cursor() from None
    if not (split and math.isfinite(found)):
        raise _bad_cursor()
    return found, key


def place_text(at: float, key: str) -> str:
    """Return the content of the cursor behind an item of a list in the order of time."""
    return f"{at!r} {key}"


def number_in(page_after: str | None) -> int | None:
    """Return the number in a cursor; None for the first page.

    Raises:
        Problem: 422: the cursor was changed.
    """
    if page_after is None:
        return None
    if not (page_after.isascii() and page_after.isdecimal() and len(page_after) <= 18):
        raise _bad_cursor()
    return int(page_after)


def _bad_cursor() -> Problem:
    return Problem(422, "the cursor is not of this list", field="cursor", remedy="take it from `next`")
