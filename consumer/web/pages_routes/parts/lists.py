"""Divide lists into pages, and link them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import Query

from consumer.web.pages import urls
from consumer.web.pages.views.parts import Pager
from consumer.web.shared.cursors import CURSOR_MAX, PageRequest, read_cursor

SIZE: Final = 50  #: items of a page

Cursor = Annotated[str, Query(max_length=CURSOR_MAX)]
"""Type of the parameter that names the place in a list; empty: its beginning."""


def page_request(path: str, query: Mapping[str, str], cursor: str, size: int = SIZE) -> PageRequest:
    """Return the wanted part of a list.

    Args:
        path: Address of the list.
        query: Its filter, without empty fields.
        cursor: The place; empty: the beginning.
        size: Most items.

    Raises:
        Problem: 422: the cursor is of another list.
    """
    of = repr((path, sorted(query.items())))
    return PageRequest(list=of, size=size, after=read_cursor(cursor, of) if cursor else None)


def pager(path: str, query: Mapping[str, str], cursor: str, following: str | None) -> Pager:
    """Return the links around one page of a list.

    Args:
        path: Address of the list.
        query: Its filter.
        cursor: The place of this page; empty: the beginning.
        following: The place of the next page; None: this page is the last one.
    """
    return Pager(
        previous=urls.with_query(path, query) if cursor else "",
        next="" if following is None else urls.with_query(path, {**query, "cursor": following}),
    )


def not_empty(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the fields of a filter that are not empty."""
    return {name: value for name, value in values.items() if value}
