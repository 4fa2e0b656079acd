"""An endpoint that a test breaks and repairs while it runs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web

from tests.support.servers.web_app import listening


@dataclass(slots=True)
class Switch:
    """Answers each webhook in the way that the test has set, and remembers its id."""

    status: int = 200
    body: bytes = b""
    taken: list[str] = field(default_factory=list)  #: ids of webhooks that were answered with 200
    port: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Switch:
        app = web.Application()
        app.router.add_post("/{tail:.*}", self._answer)
        self.port = await self._stack.enter_async_context(listening(app))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        if self.status == 200:
            self.taken.append(request.headers["webhook-id"])
        return web.Response(status=self.status, body=self.body, content_type="application/json")
