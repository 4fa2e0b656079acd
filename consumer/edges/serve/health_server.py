"""Serve /healthz, /readyz, /metrics, the runbook and the sender's numbers over HTTP.

Data flow: request -> state of the daemon -> text or JSON. Requests change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from consumer.core.errors import ConfigError
from consumer.core.text.hosts import is_loopback, names_this_machine
from consumer.edges.http.handles import handle_limit, reserved_of
from consumer.edges.serve.bounded_connections import BoundedConnections
from consumer.edges.serve.runbook import RUNBOOK_HEADERS, RUNBOOK_PATH, runbook_page
from metrics.server import exposition

SENDER_STATS = "/webhook/subscriptions/sender/stats"
"""Source: S0-6."""


class HealthServer:
    """Answers on the address in LEVERET_LISTEN."""

    def __init__(
        self,
        registry: CollectorRegistry,
        unready: Callable[[], str | None],
        notes: Callable[[], Sequence[str]] = tuple,
        sender_stats: Mapping[str, object] | None = None,
    ) -> None:
        """Bind to the state that it shows.

        Args:
            registry: The metrics.
            unready: Returns why the daemon is not ready, or None.
            notes: Returns problems that do not make the daemon unready, one line each.
            sender_stats: Answer of :data:`SENDER_STATS`; None leaves that path out.
        """
        self._registry = registry
        self._unready = unready
        self._notes = notes
        self._sender_stats = None if sender_stats is None else orjson.dumps(sender_stats)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. *port* 0 lets the system choose one.

        An address that other machines can reach serves only health, metrics and the runbook, as there is no
        login.

        Raises:
            ConfigError: the address is taken, not of this machine, or not valid.
        """
        app = web.Application(client_max_size=1024)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get(RUNBOOK_PATH, _runbook)
        if self._sender_stats is not None and is_loopback(host):
            app.router.add_get(SENDER_STATS, _for_this_machine(self._stats))
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        server = cast(web.Server, self._runner.server)  # setup() has made it
        most = reserved_of(handle_limit()) // 2
        loop = asyncio.get_running_loop()
        try:
            bounded = BoundedConnections(server, most)
            self._listener = await loop.create_server(bounded, host, port, reuse_address=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"listen: {host}:{port}: {reason}; choose another address with LEVERET_LISTEN"
            ) from None
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        reason = self._unready()
        if reason is None:
            return web.Response(text="".join(f"{line}\n" for line in ("ready", *self._notes())))
        return web.Response(status=503, text=f"not ready: {reason}\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        content_type, body = exposition(self._registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _stats(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._sender_stats, content_type="application/json")


async def _runbook(_request: web.Request) -> web.Response:
    return web.Response(body=runbook_page(), headers=RUNBOOK_HEADERS)


def _for_this_machine(handler: Handler) -> Handler:
    """Answer only requests that name this machine as their host; see :func:`names_this_machine`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if not names_this_machine(request.headers.get("Host", "")):
            raise web.HTTPMisdirectedRequest(text="ask for localhost or 127.0.0.1 by name\n")
        return await handler(request)

    return handle
