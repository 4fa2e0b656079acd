"""Serve stylesheet, script and icon of the pages, and the runbook, from memory."""

from __future__ import annotations

from functools import cache
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.edges.serve.runbook import RUNBOOK_HEADERS, RUNBOOK_PATH, runbook_page
from consumer.web.pages import urls
from consumer.web.pages.render import STATIC, static_mark
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"  #: the addresses contain a mark of the content


@router.get(f"{urls.STATIC}/{{name}}")
async def static_file(name: str, v: str = "") -> Response:
    """Return one file; a browser keeps it if its address has the mark of this content."""
    found = _files().get(name)
    if found is None:
        raise Problem(404, "there is no such file")
    content_type, body = found
    caching = _FOR_EVER if v == static_mark(name) else "no-cache"
    return Response(body, media_type=content_type, headers={"Cache-Control": caching})


@router.get(RUNBOOK_PATH)
async def runbook() -> Response:
    """Return the runbook, which alerts link to: it asks for no login and shows nothing of this system."""
    return Response(runbook_page(), headers=dict(RUNBOOK_HEADERS))


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    return {
        each.name: (_TYPES[each.suffix], each.read_bytes())
        for each in STATIC.iterdir()
        if each.suffix in _TYPES
    }
