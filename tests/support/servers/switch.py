"""An endpoint that a test breaks and repairs while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web


@dataclass(slots=True)
class Switch:
    """Answers each webhook in the way that the test has set, and remembers its id."""

    status: int = 200
    body: bytes = b""
    taken: list[str] = field(default_factory=list)  #: ids of webhooks that were answered with 200
    port: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Switch:
        app = web.Application()
        app.router.add_post("/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        if self.status == 200:
            self.taken.append(request.headers["webhook-id"])
        return web.Response(status=self.status, body=self.body, content_type="application/json")
