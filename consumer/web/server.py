"""Listen for HTTP requests with uvicorn.

Data flow: Settings -> :meth:`RunningApi.start` -> socket, app, uvicorn -> :meth:`RunningApi.stop`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
import uvicorn

from consumer.core.text.hosts import url_of
from consumer.edges.http.handles import handle_limit, reserved_of
from consumer.settings import Settings
from consumer.web.app import create_app
from consumer.web.connections import BoundedProtocol
from consumer.web.context import WebContext, open_context
from consumer.web.listening import BACKLOG, certificate_fault, listen

GRACE_S: Final = 5  #: seconds in which requests in flight may end at a stop
CLEAN_S: Final = 5  #: seconds in which a request that was cancelled may note its result
IDLE_S: Final = 30  #: seconds after which an idle connection is closed


class _Server(uvicorn.Server):
    """A server that leaves the signals to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class RunningApi:
    """An API that listens."""

    def __init__(self, context: WebContext, listening: socket.socket) -> None:
        """Take over the context and the socket; :meth:`start` makes both."""
        self.port = int(listening.getsockname()[1])
        host, _ = context.settings.api.place()
        self.url = url_of("https" if context.settings.api.uses_tls else "http", host, self.port)
        self._context = context
        self._socket = listening
        self._server = _Server(_config(context))
        self.serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="api")
        self.serving.add_done_callback(_report_failure)

    @classmethod
    async def start(cls, settings: Settings, listening: socket.socket | None = None) -> RunningApi:
        """Listen on the address of the settings, or at *listening*.

        Raises:
            ConfigError: the address is taken or not of this machine, or a certificate cannot be used.
        """
        listening = listen(settings.api) if listening is None else listening
        try:
            running = cls(open_context(settings), listening)
        except OSError as error:  # of which ssl.SSLError is a kind
            listening.close()
            raise certificate_fault(error) from None
        host, _ = settings.api.place()
        place = {"host": host, "port": running.port, "tls": settings.api.uses_tls}
        structlog.get_logger().info("api.started", url=running.url, **place)
        return running

    async def stop(self) -> None:
        """Accept nothing more, let requests in flight end, and close every connection."""
        self._server.should_exit = True
        await asyncio.wait({self.serving})
        if cancelled := set(self._server.server_state.tasks):
            await asyncio.wait(cancelled, timeout=CLEAN_S)
        self._socket.close()
        await self._context.close()
        structlog.get_logger().info("api.stopped", port=self.port)


def _report_failure(serving: asyncio.Task[None]) -> None:
    """Log why the API ended by itself."""
    error = None if serving.cancelled() else serving.exception()
    if error is not None:
        structlog.get_logger().error("api.ended", exc_info=error)


def _config(context: WebContext) -> uvicorn.Config:
    api = context.settings.api
    config = uvicorn.Config(
        create_app(context),
        loop="none",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,  # records of the library go through our own log
        access_log=False,  # the boundary writes it
        server_header=False,
        proxy_headers=False,  # the boundary reads the address of a client
        limit_concurrency=reserved_of(handle_limit()),
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=None if api.tls_certificate is None else str(api.tls_certificate),
        ssl_keyfile=None if api.tls_key is None else str(api.tls_key),
    )
    config.load()
    return config
