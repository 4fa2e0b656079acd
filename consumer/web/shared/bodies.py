"""Read the body of each request once: bounded, in time, and strictly as JSON where it is JSON.

Data flow: ASGI messages -> :class:`Bodies` -> one ASGI message with the whole body -> the app.
"""

from __future__ import annotations

import asyncio
from typing import Final

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consumer.web.shared.problems import AnswerProblem, Problem

READ_S: Final = 30.0  #: seconds in which a body must have arrived
API_PATHS: Final = ("/v1/", "/webhook/")
"""Beginnings of the paths that take JSON only; the pages take forms."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_FORM: Final = "application/x-www-form-urlencoded"


class Bodies:
    """Refuses bodies that are too large, too slow, of another type, or not strict JSON."""

    def __init__(self, app: ASGIApp, max_bytes: int, answer: AnswerProblem) -> None:
        self._app = app
        self._respond = answer
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
            self._check(scope, Headers(scope=scope), body)
        except Problem as problem:
            await self._respond(scope, problem)(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self._max_bytes:
            raise self._too_large()
        parts, size = [], 0
        try:
            async with asyncio.timeout(READ_S):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Problem(400, "the client left before the end of the body")
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > self._max_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            detail = f"the body did not arrive within {READ_S:g} s"
            raise Problem(408, detail, headers={"Connection": "close"}) from None

    def _check(self, scope: Scope, headers: Headers, body: bytes) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not body or scope["method"] not in _WITH_BODY:
            return
        if kind == _FORM and not str(scope["path"]).startswith(API_PATHS):
            return
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Problem(
                415,
                "the body is not of the type application/json",
                field="Content-Type",
                remedy="send JSON with Content-Type: application/json",
            )
        try:
            orjson.loads(body)  # strict: no NaN, no lone surrogates, valid UTF-8
        except orjson.JSONDecodeError as error:
            raise Problem(
                400, f"the body is not valid JSON: {error.msg}", remedy="send one JSON object"
            ) from None

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"the body has more than {self._max_bytes} bytes",
            remedy="send less at once, or raise [api] max_body_bytes",
            headers={"Connection": "close"},
        )
