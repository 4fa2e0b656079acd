"""Parameters that many routes take: the page, the tenant in the path, preconditions."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request

from consumer.core.event.decode import TENANT_PATTERN
from consumer.web.context import Context
from consumer.web.shared.cursors import CURSOR_MAX, PageRequest, read_cursor
from consumer.web.shared.problems import Problem

PAGE_SIZE = 100
"""Items of a page if the client asks for no number."""

TenantName = Annotated[str, Path(pattern=f"^{TENANT_PATTERN.pattern}$", description="A tenant.")]
IfMatch = Annotated[
    str | None, Header(description="ETag that the object must still have; otherwise the answer is 412.")
]
IfNoneMatch = Annotated[
    str | None, Header(description="ETag that the client has; if it is still right, the answer is 304.")
]


async def _page(
    request: Request,
    context: Context,
    limit: Annotated[int | None, Query(ge=1, description="Most items of the page.")] = None,
    cursor: Annotated[
        str | None, Query(max_length=CURSOR_MAX, description="`next` of the page before.")
    ] = None,
) -> PageRequest:
    most = context.settings.api.page_size_max
    if limit is not None and limit > most:
        raise Problem(422, f"a page has at most {most} items", field="limit", remedy="follow `next`")
    filters = sorted(
        pair for pair in request.query_params.multi_items() if pair[0] not in ("limit", "cursor")
    )
    of = repr((request.url.path, filters))
    after = None if cursor is None else read_cursor(cursor, of)
    return PageRequest(list=of, size=min(most, PAGE_SIZE if limit is None else limit), after=after)


RowNumber = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Number of a row of the history.")]
"""The type of a parameter that is compared with numbers of rows."""
Paging = Annotated[PageRequest, Depends(_page)]
"""The type of a parameter through which a route gets the wanted page."""
