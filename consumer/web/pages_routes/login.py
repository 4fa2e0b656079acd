"""Log browsers in with a token, and out."""

from __future__ import annotations

import secrets
from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import Response

from consumer.core.errors import StoreUnavailable
from consumer.web.access.cookies import LOGIN, SESSION, drop_cookie, read_cookie, set_cookie
from consumer.web.access.logins import Logins
from consumer.web.access.sessions import RANDOM_BYTES, Sessions, is_same
from consumer.web.access.visitors import AnyVisitor, home_of, read_form, require_own_origin, visitor_of
from consumer.web.pages import urls
from consumer.web.pages.views.access import LoginPage
from consumer.web.pages.views.parts import Shell
from consumer.web.pages_routes.parts.answers import local_path, page_answer, see_other
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get(urls.LOGIN)
async def login_page(request: Request, next: str = "") -> Response:
    """Show the form, or lead somebody who is logged in to the first page."""
    try:
        visitor = await visitor_of(request)
    except Problem as problem:
        if problem.status != 401:
            raise
        return _form(request, next)
    return see_other(local_path(next) or home_of(visitor))


@router.post(urls.LOGIN)
async def login(request: Request) -> Response:
    """Begin a session with the token of the form; failures are counted by address."""
    require_own_origin(request)
    form = await read_form(request)
    wanted = form.get("next", "")
    sessions: Sessions = request.state.sessions
    logins: Logins = request.state.logins
    cookie = read_cookie(request, LOGIN)
    if not cookie or not is_same(form.get("csrf", ""), sessions.login_csrf(cookie)):
        stale = Problem(403, "This form is too old, or the browser keeps no cookies. Send it again.")
        return _form(request, wanted, stale)
    try:
        token = await logins.login(form.get("token", "").strip(), request.state.address)
    except Problem as problem:
        return _form(request, wanted, problem)
    if old := read_cookie(request, SESSION):
        with suppress(StoreUnavailable):  # it ends by time
            await sessions.end(old)
    request.scope["state"]["who"] = f"token:{token.id}"
    home = urls.OVERVIEW if token.tenant is None else urls.CUSTOMER
    answer = see_other(local_path(wanted) or home)
    set_cookie(request, answer, SESSION, await sessions.open(token.id))
    drop_cookie(request, answer, LOGIN)
    return answer


@router.post(urls.LOGOUT)
async def logout(request: Request, visitor: AnyVisitor) -> Response:
    """End the session; *visitor* has checked that the form is its own."""
    await request.state.sessions.end(read_cookie(request, SESSION))
    answer = see_other(urls.LOGIN)
    drop_cookie(request, answer, SESSION)
    return answer


def _form(request: Request, wanted: str, problem: Problem | None = None) -> Response:
    """Return the login form, with a cookie that binds it to the browser."""
    cookie = read_cookie(request, LOGIN) or secrets.token_urlsafe(RANDOM_BYTES)
    page = LoginPage(
        shell=Shell(
            now=request.state.context.clock.now(),
            csrf=request.state.sessions.login_csrf(cookie),
        ),
        error="" if problem is None else _sentence(problem),
        next=local_path(wanted),
    )
    answer = page_answer(page, 200 if problem is None else problem.status)
    if problem is not None and "Retry-After" in problem.headers:
        answer.headers["Retry-After"] = problem.headers["Retry-After"]
    set_cookie(request, answer, LOGIN, cookie)
    return answer


def _sentence(problem: Problem) -> str:
    """Return a problem for a person."""
    if problem.status == 401:
        return "This token is not valid: it is mistyped, has expired, or was revoked."
    remedy = problem.faults[0].remedy
    text = str(problem) if remedy is None else f"{problem}; {remedy}"
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
