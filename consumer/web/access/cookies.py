"""Set and read the cookies of the pages, and judge whether a form comes from our own pages.

Under HTTPS their names begin with ``__Host-``: no other host and no plain HTTP page can set such a cookie.
Source: RFC 6265bis, 4.1.3.2.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response

SESSION: Final = "leveret-session"
LOGIN: Final = "leveret-login"
"""Binds the login form to the browser that it was sent to."""
_OWN_SITES: Final = ("same-origin", "none")


def is_secure(request: Request) -> bool:
    """Return whether the browser speaks HTTPS: with us, or with the proxy in front of us.

    A proxy that does not name the protocol ends TLS, as the setting says.
    """
    api = request.state.context.settings.api
    if api.behind_proxy:
        return request.headers.get("x-forwarded-proto", "https").lower() != "http"
    return bool(api.uses_tls)


def read_cookie(request: Request, name: str) -> str:
    """Return the value of a cookie; an empty text if the request has none."""
    return request.cookies.get(_name(request, name), "")


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Set a cookie that no script reads, and that the browser forgets when it ends.

    ``Lax``: a link from a chat to a page works for a person who is logged in; a form of another site brings
    no cookie.
    """
    response.set_cookie(
        _name(request, name), value, path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    response.delete_cookie(
        _name(request, name), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def is_own_form(request: Request) -> bool:
    """Return whether the browser does not name another site as the origin of this request.

    A browser sends ``Origin`` with each form; a program may send neither header.
    """
    if request.headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    scheme = "https" if is_secure(request) else "http"
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    is_own_scheme = parts.scheme == scheme or request.state.context.settings.api.behind_proxy
    return is_own_scheme and parts.netloc.lower() == request.headers.get("host", "").lower()


def _name(request: Request, name: str) -> str:
    return f"__Host-{name}" if is_secure(request) else name
