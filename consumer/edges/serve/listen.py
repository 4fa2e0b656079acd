"""Receive webhooks for trials: verify each, report it, and answer as its path is meant to behave.

Data flow: request -> signature -> core.behaviour -> (wait) -> Received, reported before the answer -> answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from consumer.core.errors import BadSignature, ConfigError
from consumer.core.tools.behaviour import Answer, Behaviour, Endpoint, behaviour_of
from consumer.core.webhook.signing import ID_HEADER, VerifyingKey, verify

HOST = "127.0.0.1"
MAX_BODY_BYTES = 16 * 1024 * 1024
PATHS_MAX = 10_000  #: paths with their own counts; strangers must not fill the memory
_SHUTDOWN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request and its answer."""

    began: float  #: Unix seconds when the body was read
    took_s: float  #: time until the answer
    method: str
    path: str  #: without its query, which may contain tokens
    event_id: str | None  #: the ``webhook-id``
    attempt: int  #: how often this id came to this path, 1-based; 0 if it was not counted
    signature: str  #: good | bad | unchecked
    problem: str | None  #: fault of the request or of its path
    status: int | None  #: None if the client left before the answer
    retry_after_s: int | None
    body: bytes


@dataclass(slots=True)
class _Path:
    """One endpoint, and the gate that its held requests wait for."""

    endpoint: Endpoint = field(default_factory=Endpoint)
    gate: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """The result of checking one request."""

    signature: str = "unchecked"
    attempt: int = 0
    problem: str | None = None
    answer: Answer = field(default_factory=lambda: Answer(status=500))


class Listener:
    """Listens on 127.0.0.1 until it is stopped.

    Args:
        keys: Keys of which any may have signed; without keys, signatures stay unchecked.
        behaviour: Behaviour of paths without a preset.
        on_request: Called with each request, before its answer leaves.
    """

    def __init__(
        self, keys: Sequence[VerifyingKey], behaviour: Behaviour, on_request: Callable[[Received], None]
    ) -> None:
        self.keys = list(keys)
        self._behaviour = behaviour
        self._on_request = on_request
        self._paths: dict[str, _Path] = {}
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> int:
        """Listen; return the port. *port* 0 lets the system choose one.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, port, reuse_address=True, backlog=1024).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening; held requests end without an answer."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        began, clock = time.time(), time.monotonic()
        body, checked, finished = b"", _Checked(), False
        try:
            body = await request.read()
            checked = self._check(request, body)
            await self._wait(request.path, checked.answer)
            finished = True
        except web.HTTPRequestEntityTooLarge:
            checked = _Checked(problem=f"the body is over {MAX_BODY_BYTES} bytes", answer=Answer(status=413))
            finished = True
        finally:
            self._on_request(
                Received(
                    began=began,
                    took_s=time.monotonic() - clock,
                    method=request.method,
                    path=request.path,
                    event_id=request.headers.get(ID_HEADER),
                    attempt=checked.attempt,
                    signature=checked.signature,
                    problem=checked.problem,
                    status=checked.answer.status if finished else None,
                    retry_after_s=checked.answer.retry_after_s,
                    body=body,
                )
            )
        return _response(checked)

    def _check(self, request: web.Request, body: bytes) -> _Checked:
        """Verify a request and choose its answer."""
        if request.method != "POST":
            return _Checked(problem="a webhook is a POST", answer=Answer(status=405))
        signature = "unchecked"
        if self.keys:
            try:
                verify(self.keys, request.headers, body, time.time())
            except BadSignature as error:
                return _Checked(signature="bad", problem=str(error), answer=Answer(status=401))
            signature = "good"
        try:
            behaviour = behaviour_of(request.path, request.query, self._behaviour)
        except ConfigError as error:
            return _Checked(signature=signature, problem=str(error), answer=Answer(status=400))
        endpoint, event_id = self._path(request.path).endpoint, request.headers.get(ID_HEADER, "")
        attempt = endpoint.count(event_id)
        answer = endpoint.answer(behaviour, event_id, attempt, time.time())
        return _Checked(signature=signature, attempt=attempt, answer=answer)

    async def _wait(self, path: str, answer: Answer) -> None:
        """Return when the answer may leave."""
        if answer.held:
            gate = self._path(path).gate
            if answer.released:
                gate.set()
            await gate.wait()
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)

    def _path(self, path: str) -> _Path:
        found = self._paths.get(path)
        if found is None:
            if len(self._paths) >= PATHS_MAX:
                self._paths.pop(next(iter(self._paths)))
            found = self._paths[path] = _Path()
        return found


def _response(checked: _Checked) -> web.Response:
    answer = checked.answer
    headers = {} if answer.retry_after_s is None else {"Retry-After": str(answer.retry_after_s)}
    text = None if checked.problem is None else checked.problem + "\n"
    return web.Response(status=answer.status, text=text, headers=headers)
