"""Show sample pages in Chromium, from memory: no server, no network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, Route, sync_playwright

from docs.page_preview.pages import named, pages
from docs.page_preview.site import Site

LOADED_MS: Final = 150_000  #: longest wait for a step of a page, on a busy machine too
CHROMIUM: Final = "/usr/bin/chromium"  #: Debian's; playwright downloads none
ORIGIN: Final = "http://leveret.test"
HEIGHT: Final = 800

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")


@contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium without a window. It shows only our own pages, so its sandbox is off for root's sake."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=LOADED_MS)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def tab(started: Browser, site: Site, width: int, scheme: Scheme = "light") -> Iterator[Page]:
    """Open a tab that gets every answer from *site*; *width* is in CSS pixels."""
    context = started.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce"
    )

    def answer(route: Route) -> None:
        found = site.answer(route.request.url)
        route.fulfill(status=found.status, headers=dict(found.headers), body=found.body)

    context.set_default_timeout(LOADED_MS)
    context.route("**/*", answer)
    try:
        yield context.new_page()
    finally:
        context.close()


def take_screenshots(folder: Path, widths: tuple[int, ...], wanted: str = "") -> None:
    """Write a picture of each page, in both colour schemes, into *folder*.

    Args:
        folder: Is made if it is missing.
        widths: Of the window, in CSS pixels.
        wanted: Only the page with this name; empty: all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(pages())
    with browser() as started:
        for width in widths:
            for scheme in SCHEMES:
                with tab(started, site, width, scheme) as page:
                    for name, path in named().items():
                        if wanted in ("", name):
                            page.goto(ORIGIN + path)
                            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
