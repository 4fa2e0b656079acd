"""Answer with a page, a redirect, or the page of an error.

Data flow: Visitor -> :func:`shell_of` -> a view -> :func:`page_answer`; an error -> :func:`answer_problem`.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from consumer.web.access.visitors import Visitor
from consumer.web.pages import urls
from consumer.web.pages.render import CONTENT_SECURITY_POLICY, render
from consumer.web.pages.views.access import ErrorPage
from consumer.web.pages.views.parts import Page, Shell
from consumer.web.shared.bodies import API_PATHS
from consumer.web.shared.problems import Problem, respond

HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    # with "no-referrer" a browser sends "Origin: null" with our own forms. Source: Fetch, 3.2
    "Referrer-Policy": "same-origin",
}
_REMEDY_PREFIXES: Final = ("see /v1/", "send Authorization")
"""Remedies that are for programs only."""


def shell_of(
    visitor: Visitor, *, refresh_s: int | None = None, search: str = "", keeps_flash: bool = False
) -> Shell:
    """Return the frame of a page for *visitor*.

    Args:
        visitor: Who looks at it.
        refresh_s: The page reloads itself this often; None: never.
        search: Content of the search field.
        keeps_flash: Leave the result of the last form for the next page.
    """
    token = visitor.caller.token
    return Shell(
        now=visitor.context.clock.now(),
        csrf=visitor.session.csrf,
        user=token.name,
        scope=token.scope.value,
        tenant=token.tenant or "",
        flash=None if keeps_flash else visitor.session.take_flash(),
        refresh_s=refresh_s,
        search=search,
        is_summing=not visitor.context.activity.is_complete,
    )


def page_answer(page: Page, status: int = 200) -> Response:
    """Return the answer with a page."""
    return HTMLResponse(render(page), status, headers=HEADERS)


def see_other(path: str) -> Response:
    """Return the answer that leads the browser to another page of ours. Source: RFC 9110, 15.4.4."""
    return RedirectResponse(path, 303)


def wants_page(scope: Scope) -> bool:
    """Return whether a person asks, and not a program: no path of the API, and HTML is accepted."""
    if str(scope["path"]).startswith(API_PATHS):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


def answer_problem(scope: Scope, problem: Problem) -> Response:
    """Return the answer to a request that failed: a page for a person, a problem document for a program."""
    state = scope.get("state", {})
    request_id = state.get("request_id")
    if not wants_page(scope):
        return respond(problem, request_id)
    visitor = state.get("visitor")
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return see_other(urls.with_query(urls.LOGIN, {"next": _asked(scope)}))
    first = problem.faults[0]
    remedy = first.remedy or ""
    page = ErrorPage(
        shell=Shell(now=time.time()) if visitor is None else shell_of(visitor, keeps_flash=True),
        status=problem.status,
        name=HTTPStatus(problem.status).phrase,
        detail="; ".join(fault.detail for fault in problem.faults),
        remedy="" if remedy.startswith(_REMEDY_PREFIXES) else remedy,
        request_id=request_id or "",
    )
    answer = page_answer(page, problem.status)
    for name, value in problem.headers.items():
        answer.headers.setdefault(name, value)
    return answer


def _asked(scope: Scope) -> str:
    """Return the page that a person wanted to see; empty for a form, and for the first page."""
    if scope["method"] not in ("GET", "HEAD") or scope["path"] == urls.OVERVIEW:
        return ""
    query = bytes(scope.get("query_string", b"")).decode("ascii", "replace")
    path = bytes(scope.get("raw_path") or b"").decode("ascii", "replace").partition("?")[0] or str(
        scope["path"]
    )
    return f"{path}?{query}" if query else path


def local_path(text: str) -> str:
    """Return *text* if it is a path on this site, otherwise an empty text.

    A browser reads ``//host`` and ``/\\host`` as another site.
    """
    if not text.startswith("/") or text.startswith(("//", "/\\")) or not text.isprintable() or "\\" in text:
        return ""
    parts = urlsplit(text)
    return "" if parts.scheme or parts.netloc else text
