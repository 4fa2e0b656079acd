"""The API in a thread of this process, and the command line that works over it through ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import structlog
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from consumer.cli import app as command_line
from consumer.core.store.tokens import Scope
from consumer.settings import load_settings
from consumer.web.app import create_app
from consumer.web.context import WebContext, open_context

URL = "http://localhost:8090"
ANSWER_S = 60.0
Both = Callable[..., tuple[Result, Result]]
"""Runs the same command locally and over the API."""


class AppTransport(httpx2.BaseTransport):
    """Carries the requests of a blocking client to an app on an event loop of another thread."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        """Bind to an app and to the loop on which it runs."""
        self._inner = httpx2.ASGITransport(app=app)
        self._loop = loop
        self.seen: list[httpx2.Request] = []  #: all requests

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer of the app."""
        self.seen.append(request)
        body = request.read()

        async def ask() -> httpx2.Response:
            sent = httpx2.Request(request.method, request.url, headers=request.headers, content=body)
            answer = await self._inner.handle_async_request(sent)
            content = await answer.aread()
            return httpx2.Response(answer.status_code, headers=answer.headers, content=content)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(ANSWER_S)


@dataclass(slots=True)
class RemoteDesk:
    """The command line over one API."""

    context: WebContext
    transport: AppTransport
    loop: asyncio.AbstractEventLoop
    folder: Path

    def token_file(self, scope: Scope = Scope.ADMIN, tenant: str | None = None) -> str:
        """Make a token, and return the name of the file that contains it."""
        making = self.context.store.records.tokens.create("t", scope, tenant=tenant, expires=None, who="t")
        made, text = asyncio.run_coroutine_threadsafe(making, self.loop).result(ANSWER_S)
        file = self.folder / f"token-{made.id}"
        file.touch(mode=0o600)
        file.write_text(f"{text}\n")
        return str(file)

    def run(self, *words: str, token_file: str | None = None, stdin: str | None = None) -> Result:
        """Run ``leveret --server ...`` with *words*; it has no settings of store and broker."""
        options = ["--server", URL, "--token-file", token_file or self.token_file()]
        env = {"LEVERET_HOME": str(self.folder / "nothing")}
        return CliRunner().invoke(command_line, [*options, *words], obj=self.transport, input=stdin, env=env)


@contextmanager
def remote_desk(folder: Path, settings: dict[str, str]) -> Iterator[RemoteDesk]:
    """Serve the API of *settings* on a thread, and give the command line that works over it."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[_silent])
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()

    def wait_for(step: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result(ANSWER_S)

    async def opened() -> WebContext:
        return open_context(load_settings(settings))

    context = wait_for(opened())
    try:
        yield RemoteDesk(context, AppTransport(create_app(context), loop), loop, folder)
    finally:
        wait_for(context.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_S)
        loop.close()
        structlog.reset_defaults()


def _silent(_logger: object, _method: str, _fields: Any) -> str:
    return ""
