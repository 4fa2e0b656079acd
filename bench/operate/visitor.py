"""A visitor of the pages without a browser: it logs in with the form, keeps the cookie, and sends forms."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from consumer.web.pages import urls
from tests.support.system.api import ServedApi

CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(slots=True)
class Visitor:
    """A session on one site."""

    client: httpx2.AsyncClient
    csrf: str = ""

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> httpx2.Response:
        """Return a page; a redirect is not followed."""
        return await self.client.get(path, params=dict(query or {}))

    async def send(self, path: str, fields: Mapping[str, str] | None = None) -> httpx2.Response:
        """Send a form of this session."""
        origin = {"Origin": str(self.client.base_url).rstrip("/")}
        return await self.client.post(path, data={"csrf": self.csrf, **(fields or {})}, headers=origin)

    async def log_in(self, token: str) -> None:
        """Begin a session with *token*.

        Raises:
            RuntimeError: the login failed.
        """
        self.csrf = csrf_of(await self.get(urls.LOGIN))
        answer = await self.send(urls.LOGIN, {"token": token, "next": ""})
        if answer.status_code != 303:
            raise RuntimeError(f"the login answered {answer.status_code}")
        self.csrf = csrf_of(await self.get(answer.headers["location"]))


def csrf_of(answer: httpx2.Response) -> str:
    """Return the hidden field of the forms on a page; empty without forms."""
    found = CSRF.search(answer.text)
    return found[1] if found else ""


@asynccontextmanager
async def visiting(api: ServedApi, token: str) -> AsyncIterator[Visitor]:
    """Log in at *api* with *token*."""
    headers = {"Accept": "text/html"}
    async with httpx2.AsyncClient(base_url=api.url, timeout=30, trust_env=False, headers=headers) as client:
        visitor = Visitor(client)
        await visitor.log_in(token)
        yield visitor
