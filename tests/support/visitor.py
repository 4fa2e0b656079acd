"""A browser without scripts, for tests of pages: it keeps cookies, and sends the forms of its pages."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx2

HTML: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
_CSRF: Final = re.compile(r'name="csrf" value="([^"]*)"')
_TAG: Final = re.compile(r"<[^>]+>")


@dataclass(slots=True)
class Visitor:
    """Somebody with a browser."""

    client: httpx2.AsyncClient
    csrf: str = ""  #: of the last page that had a form

    async def see(self, path: str, status: int = 200) -> str:
        """Open a page, and return its text without tags; *status* is the expected one."""
        answer = await self.client.get(path, headers=HTML)
        assert answer.status_code == status, (answer.status_code, answer.headers, answer.text[:2000])
        return self.read(answer)

    async def send(
        self, path: str, fields: Mapping[str, str] | None = None, **headers: str
    ) -> httpx2.Response:
        """Send a form with the hidden field of the last page; no redirect is followed."""
        data = {"csrf": self.csrf, **(fields or {})}
        return await self.client.post(path, data=data, headers={**HTML, **headers})

    async def sent(self, path: str, fields: Mapping[str, str] | None = None) -> str:
        """Send a form, follow its redirect, and return the text of that page."""
        answer = await self.send(path, fields)
        assert answer.status_code == 303, (answer.status_code, answer.text[:2000])
        return await self.see(answer.headers["location"])

    async def log_in(self, token: str, next_path: str = "/audit") -> httpx2.Response:
        """Log in with a token, look at the next page, and return the answer to the form."""
        await self.see("/login")
        answer = await self.send("/login", {"token": token, "next": next_path})
        if answer.status_code == 303:
            self.read(await self.client.get(answer.headers["location"], headers=HTML))
        return answer

    def read(self, answer: httpx2.Response) -> str:
        """Return the text of a page, and remember the hidden field of its forms."""
        found = _CSRF.search(answer.text)
        if found is not None:
            self.csrf = found[1]
        return html.unescape(" ".join(_TAG.sub(" ", answer.text).split()))
