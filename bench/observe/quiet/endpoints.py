"""The endpoints of customers, each of which a moment of life may change while it runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(slots=True)
class Endpoint:
    """One endpoint."""

    status: int = 200
    delay_s: float = 0.02
    failing_ratio: float = 0.0  #: share of the requests that get 503 instead
    answers: Counter[int] = field(default_factory=Counter)  #: by status


class Endpoints:
    """A server on loopback with one endpoint for each name. An async context manager."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_name = {name: Endpoint() for name in names}
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> Endpoints:
        app = web.Application()
        app.router.add_post("/{name}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def __getitem__(self, name: str) -> Endpoint:
        return self._by_name[name]

    def url(self, name: str) -> str:
        """Return the URL of one endpoint."""
        return f"http://127.0.0.1:{self._port}/{name}"

    async def _answer(self, request: web.Request) -> web.Response:
        endpoint = self[request.match_info["name"]]
        await request.read()
        await asyncio.sleep(endpoint.delay_s)
        status = 503 if random.random() < endpoint.failing_ratio else endpoint.status
        endpoint.answers[status] += 1
        return web.Response(status=status)
