"""A site of sample pages in memory: a path in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from consumer.web.pages.render import CONTENT_SECURITY_POLICY, STATIC, render
from consumer.web.pages.views.parts import Page

_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Answer(NamedTuple):
    """One response."""

    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, with the policy of the real pages."""
        return {"content-type": self.content_type, "content-security-policy": CONTENT_SECURITY_POLICY}


class Site:
    """Answers each path with the page or the static file that has it."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def answer(self, url: str) -> Answer:
        """Return the answer to a GET of *url*; its query is ignored."""
        path = urlsplit(url).path
        if path.startswith("/static/"):
            return self._static(path.removeprefix("/static/"))
        page = self._pages.get(path)
        if page is None:
            return Answer(404, "text/plain; charset=utf-8", b"there is no sample of this page")
        return Answer(200, "text/html; charset=utf-8", render(page).encode())

    def _static(self, name: str) -> Answer:
        files = {each.name: each for each in STATIC.iterdir()}
        if name not in files:
            return Answer(404, "text/plain; charset=utf-8", b"there is no such file")
        return Answer(200, f"{_TYPES[files[name].suffix]}; charset=utf-8", files[name].read_bytes())
