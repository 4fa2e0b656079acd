"""Stand around each request: its id, the check of its host, security headers, access log, unexpected errors.

Data flow: ASGI request -> :class:`Boundary` -> the app -> response with headers -> the line
``api.requested``.
"""

from __future__ import annotations

import ipaddress
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consumer.core.text.hosts import names_this_machine
from consumer.core.text.ids import uuid7
from consumer.core.text.printable import printable
from consumer.web.shared.log import Log
from consumer.web.shared.problems import AnswerProblem, Problem

PATH_MAX: Final = 200  #: characters of a path in the log
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORWARDED: Final = re.compile(r'"?(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^:"]+))(?::\d{1,5})?"?')
"""An address, or one with a port, as a proxy may write it; a bare IPv6 address does not match."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
}
"""Set unless the app has set them. A page sets its own Content-Security-Policy."""
_HSTS: Final = "max-age=31536000"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryOptions:
    """How the API is reached."""

    check_host: bool  #: only this machine can reach it, so that a foreign ``Host`` is an attack
    is_https: bool
    behind_proxy: bool  #: believe the last entry of ``X-Forwarded-For``


class Boundary:
    """The outermost middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        options: BoundaryOptions,
        log: Log,
        answer: AnswerProblem,
        shared: Mapping[str, object],
    ) -> None:
        """Wrap *app*.

        Args:
            app: The next middleware.
            options: How the API is reached.
            log: Gets a line for each request.
            answer: Makes the answer of a problem.
            shared: Objects of the app, by their name in ``request.state``.
        """
        self._app = app
        self._shared = shared
        self._respond = answer
        self._options = options
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, began = Headers(scope=scope), time.monotonic()
        state = scope.setdefault("state", {})
        state.update(self._shared)
        state["request_id"] = _request_id(headers.get("x-request-id", ""))
        state["address"] = client_address(scope, behind_proxy=self._options.behind_proxy)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(message, state["request_id"])
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        except Exception as error:
            self._log.error("api.failed", request_id=state["request_id"], exc_info=error)
            if not status:
                fault = Problem(500, "Leveret failed; its log has the cause, under the request's id")
                await self._respond(scope, fault)(scope, receive, sending)
        finally:
            self._log.info("api.requested", **_line(scope, status, time.monotonic() - began))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            problem = Problem(
                400,
                "the request has two lengths",
                field="Content-Length",
                remedy="send Content-Length or Transfer-Encoding",
                headers={"Connection": "close"},
            )
            await self._respond(scope, problem)(scope, receive, send)
            return
        host = headers.get("host", "")
        if self._options.check_host and not names_this_machine(host):
            problem = Problem(421, "the request names another host", field="Host", remedy="ask for localhost")
            await self._respond(scope, problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _add_headers(self, message: Message, request_id: str) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        if self._options.is_https:
            headers.setdefault("Strict-Transport-Security", _HSTS)
        headers["X-Request-Id"] = request_id


def client_address(scope: Scope, *, behind_proxy: bool) -> str:
    """Return the address of the client; of IPv6 its network of 64 bits, as one client has all of it."""
    client = scope.get("client")
    text = str(client[0]) if client else ""
    if behind_proxy:
        forwarded = Headers(scope=scope).getlist("x-forwarded-for")
        text = _without_port(",".join(forwarded).rpartition(",")[2].strip()) or text
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


def _without_port(text: str) -> str:
    """Return an address without quotes, brackets and port: some proxies add them, as RFC 7239 does."""
    found = _FORWARDED.fullmatch(text)
    return text if found is None else found["bracketed"] or found["plain"]


def _request_id(given: str) -> str:
    """Return the id that the client chose if it is harmless, else a new one."""
    return given if _ID.fullmatch(given) else uuid7(int(time.time() * 1000), os.urandom(10))


def _line(scope: Scope, status: int, duration_s: float) -> dict[str, Any]:
    """Return the fields of the access log; a query is left out, as it may contain a secret."""
    state = scope["state"]
    return {
        "request_id": state["request_id"],
        "method": printable(str(scope["method"]))[:16],
        "path": printable(str(scope["path"]))[:PATH_MAX],
        "status": status,
        "duration_s": round(duration_s, 6),
        "client": state["address"],
        "who": state.get("who"),
    }
