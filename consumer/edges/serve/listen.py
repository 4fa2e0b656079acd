"""A receiver of webhooks for trying out: verifies, tells of each request, answers as its path behaves.

Data flow: request -> signature -> core.behaviour -> (wait) -> Received, told before the answer -> answer.
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
PATHS_MAX = 10_000  #: paths with counts of their own; a stranger must not fill the memory
_SHUTDOWN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request and what it was answered."""

    began: float  #: Unix seconds when it had been read
    took_s: float  #: until the answer
    method: str
    path: str  #: without its query, where tokens are
    event_id: str | None  #: the ``webhook-id``
    attempt: int  #: how often the id came to this path, 1-based; 0 where it was not counted
    signature: str  #: good | bad | unchecked
    problem: str | None  #: what is wrong with the request or its path
    status: int | None  #: None: the caller went away before the answer
    retry_after_s: int | None
    body: bytes


@dataclass(slots=True)
class _Path:
    """One endpoint, and what those that it holds wait for."""

    endpoint: Endpoint = field(default_factory=Endpoint)
    gate: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What came of looking at one request."""

    signature: str = "unchecked"
    attempt: int = 0
    problem: str | None = None
    answer: Answer = field(default_factory=lambda: Answer(status=500))


class Listener:
    """Listens on 127.0.0.1 until it is stopped.

    Args:
        keys: Any of them may have signed; none leaves signatures unchecked.
        behaviour: Of paths that no preset has.
        told: Called with each request, before its answer leaves.
    """

    def __init__(
        self, keys: Sequence[VerifyingKey], behaviour: Behaviour, told: Callable[[Received], None]
    ) -> None:
        self.keys = list(keys)
        self._behaviour = behaviour
        self._told = told
        self._paths: dict[str, _Path] = {}
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> int:
        """Listen; return the port, which *port* 0 leaves to the system.

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
        """Stop listening; whoever is held goes without an answer."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        began, clock = time.time(), time.monotonic()
        body, judged, finished = b"", _Judged(), False
        try:
            body = await request.read()
            judged = self._judge(request, body)
            await self._wait(request.path, judged.answer)
            finished = True
        except web.HTTPRequestEntityTooLarge:
            judged = _Judged(problem=f"the body is over {MAX_BODY_BYTES} bytes", answer=Answer(status=413))
            finished = True
        finally:
            self._told(
                Received(
                    began=began,
                    took_s=time.monotonic() - clock,
                    method=request.method,
                    path=request.path,
                    event_id=request.headers.get(ID_HEADER),
                    attempt=judged.attempt,
                    signature=judged.signature,
                    problem=judged.problem,
                    status=judged.answer.status if finished else None,
                    retry_after_s=judged.answer.retry_after_s,
                    body=body,
                )
            )
        return _response(judged)

    def _judge(self, request: web.Request, body: bytes) -> _Judged:
        """Verify a request and say what it is answered."""
        if request.method != "POST":
            return _Judged(problem="a webhook is a POST", answer=Answer(status=405))
        signature = "unchecked"
        if self.keys:
            try:
                verify(self.keys, request.headers, body, time.time())
            except BadSignature as error:
                return _Judged(signature="bad", problem=str(error), answer=Answer(status=401))
            signature = "good"
        try:
            behaviour = behaviour_of(request.path, request.query, self._behaviour)
        except ConfigError as error:
            return _Judged(signature=signature, problem=str(error), answer=Answer(status=400))
        endpoint, event_id = self._path(request.path).endpoint, request.headers.get(ID_HEADER, "")
        attempt = endpoint.count(event_id)
        answer = endpoint.answer(behaviour, event_id, attempt, time.time())
        return _Judged(signature=signature, attempt=attempt, answer=answer)

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


def _response(judged: _Judged) -> web.Response:
    answer = judged.answer
    headers = {} if answer.retry_after_s is None else {"Retry-After": str(answer.retry_after_s)}
    text = None if judged.problem is None else judged.problem + "\n"
    return web.Response(status=answer.status, text=text, headers=headers)
