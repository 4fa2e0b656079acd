"""Pages of a list: an opaque cursor names the last item of the page before.

Data flow: sorted items, key of each -> :func:`page_of` -> the items of one page, and the cursor of the next.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson
from pydantic import BaseModel

from consumer.web.shared.problems import Problem

T = TypeVar("T")
CURSOR_MAX = 1_024  #: characters


class Page(BaseModel, Generic[T]):
    """Some items of a list."""

    items: list[T]
    next: str | None
    """Cursor of the next page; null on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The page that a client wants."""

    list: str  #: path and filter of the list; a cursor is valid for this list only
    size: int  #: most items
    after: str | None = None  #: key of the last item of the page before

    def cursor(self, after: str) -> str:
        """Return the cursor of the page that begins after the item with this key."""
        return urlsafe_b64encode(orjson.dumps([self.list, after])).decode().rstrip("=")


def read_cursor(text: str, of: str) -> str:
    """Return the key in a cursor of the list *of*.

    Raises:
        Problem: 422: the cursor is not valid, or of another list.
    """
    try:
        padded = text + "=" * (-len(text) % 4)
        found = orjson.loads(urlsafe_b64decode(padded.encode("ascii"))) if len(text) <= CURSOR_MAX else None
    except (ValueError, binascii.Error):
        found = None
    match found:
        case [str(made_for), str(after)] if made_for == of and "\0" not in after:
            return after
    raise Problem(
        422,
        "the cursor is not of this list",
        field="cursor",
        remedy="take the cursor from `next` of the page before, with the same filters",
    )


def page_of(
    items: Sequence[T], key: Callable[[T], str], wanted: PageRequest
) -> tuple[Sequence[T], str | None]:
    """Return the items of one page of a list in memory, and the cursor of the next page.

    Args:
        items: The whole list, ascending by *key*.
        key: Unique key of an item.
        wanted: The page.
    """
    rest = items if wanted.after is None else [item for item in items if key(item) > wanted.after]
    found = rest[: wanted.size]
    more = len(rest) > wanted.size
    return found, wanted.cursor(key(found[-1])) if more else None
