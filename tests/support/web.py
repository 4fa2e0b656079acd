"""The API in this process: its app on an SQLite store of its own, with tokens and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from consumer.core.store.tokens import Scope
from consumer.settings import Settings, load_settings
from consumer.web.app import create_app
from consumer.web.context import WebContext, open_context

HOST = "localhost"
SHOP: Mapping[str, Any] = {"name": "shop", "url": "https://shop.example/hook", "events": ["order.*"]}
"""The fields of one subscription."""


@dataclass(slots=True)
class StillClock:
    """A clock that only the test moves."""

    at: float = 1_000_000.0

    def now(self) -> float:
        """Return Unix seconds."""
        return self.at

    def monotonic(self) -> float:
        """Return the same seconds."""
        return self.at

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Refuse: the API has no timers."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.at += seconds


@dataclass(slots=True)
class ListLog:
    """A log that keeps its lines."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def info(self, event: str, /, **fields: object) -> None:
        """Keep a line."""
        self.lines.append({"event": event, "level": "info", **fields})

    def warning(self, event: str, /, **fields: object) -> None:
        """Keep a line."""
        self.lines.append({"event": event, "level": "warning", **fields})

    def error(self, event: str, /, **fields: object) -> None:
        """Keep a line."""
        self.lines.append({"event": event, "level": "error", **fields})


@dataclass(slots=True)
class Api:
    """One API, not listening."""

    app: FastAPI
    context: WebContext
    clock: StillClock
    log: ListLog

    async def token(
        self, scope: Scope = Scope.ADMIN, tenant: str | None = None, expires: float | None = None
    ) -> str:
        """Make a token and return its text."""
        _, text = await self.context.store.records.tokens.create(
            "test", scope, tenant=tenant, expires=expires, who="test"
        )
        return text

    def client(self, token: str | None = None, **headers: str) -> httpx2.AsyncClient:
        """Return a client that presents *token*."""
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.app),
            base_url=f"http://{HOST}",
            headers={**sent, **headers},
        )

    async def client_of(self, scope: Scope = Scope.ADMIN, tenant: str | None = None) -> httpx2.AsyncClient:
        """Return a client with a new token."""
        return self.client(await self.token(scope, tenant))


@asynccontextmanager
async def opened_api(home: Path, **environ: str) -> AsyncIterator[Api]:
    """Give an API on a store in *home*; *environ* are further settings, such as ``API__BURST``."""
    base = {"LEVERET_HOME": str(home), "LEVERET_STORE__BUSY_TIMEOUT_S": "60"}  # a busy machine is no fault
    base |= {f"LEVERET_{name}": value for name, value in environ.items()}
    clock, log = StillClock(), ListLog()
    context = replace(open_context(load_settings(base), clock), log=log)
    try:
        yield Api(create_app(context), context, clock, log)
    finally:
        await context.close()


def every_route(app: FastAPI) -> list[tuple[str, str]]:
    """Return method and path of every route of *app*, those outside of the OpenAPI document too."""
    return [
        (method, str(route.path))
        for route in iter_route_contexts(app.routes)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the problem document of *answer*, which has *status*."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["detail"]
    assert found["request_id"] == answer.headers["x-request-id"]
    return found


def settings_of(home: Path, **environ: str) -> Settings:
    """Return settings for a free port."""
    base = {"LEVERET_HOME": str(home), "LEVERET_API__LISTEN": "127.0.0.1:0"}
    return load_settings(base | {f"LEVERET_API__{name}": value for name, value in environ.items()})
