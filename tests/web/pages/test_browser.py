"""Every page in Chromium: accessible in both colour schemes, inside its policy, and readable at 400 px."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from docs.page_preview.browser import CHROMIUM, ORIGIN, SCHEMES, Scheme, browser, tab
from docs.page_preview.pages import named, pages
from docs.page_preview.site import Site
from tests.support.data import ROOT
from tests.web.pages.hostile import hostile

AXE = ROOT / "build" / "axe" / "axe.min.js"
SERIOUS = ("serious", "critical")
RUN_AXE = "() => axe.run(document, {resultTypes: ['violations']})"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
WATCH_POLICY = (
    "addEventListener('securitypolicyviolation', (e) => console.error('policy ' + e.violatedDirective))"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run one browser for all tests of this module."""
    missing = [path for path in (Path(CHROMIUM), AXE) if not path.exists()]
    assert not missing, f"missing: {missing}; run `make browser-install`"
    with browser() as started:
        yield started


def faults(page: Page) -> list[str]:
    """Return a list to which the page's errors and reports of its policy are added."""
    found: list[str] = []
    page.add_init_script(WATCH_POLICY)
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("dialog", lambda dialog: found.append(dialog.message))
    return found


def violations(page: Page) -> list[str]:
    """Return the serious and critical violations that axe-core finds."""
    page.evaluate(AXE.read_text("utf-8"))
    result: dict[str, Any] = page.evaluate(RUN_AXE)
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_are_accessible(chromium: Browser, scheme: Scheme, width: int) -> None:
    """axe-core finds nothing serious on any page, and no page breaks its policy or overflows."""
    with tab(chromium, Site(pages()), width, scheme) as page:
        found = faults(page)
        for name, path in named().items():
            page.goto(ORIGIN + path)
            assert (name, violations(page)) == (name, [])
            assert (name, page.evaluate(OVERFLOW)) == (name, 0)
            assert (name, found) == (name, [])


@pytest.mark.parametrize("width", [1280, 400])
def test_hostile_text_breaks_no_layout(chromium: Browser, width: int) -> None:
    """Long and hostile texts run no script, break no policy and make no page wider than its window."""
    site = Site({path: hostile(page) for path, page in pages().items()})
    with tab(chromium, site, width) as page:
        found = faults(page)
        for name, path in named().items():
            page.goto(ORIGIN + path)
            assert (name, page.evaluate(OVERFLOW)) == (name, 0)
            assert (name, found) == (name, [])


def test_the_keyboard_reaches_everything(chromium: Browser) -> None:
    """The first stop is the skip link, a slash reaches the search, and every stop has a visible outline."""
    with tab(chromium, Site(pages()), 1280) as page:
        page.goto(ORIGIN + "/endpoints")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "content"
        page.keyboard.press("/")
        assert page.evaluate("() => document.activeElement.id") == "search"
        page.keyboard.press("Tab")
        outline = "() => getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"


def test_updates_can_be_paused(chromium: Browser) -> None:
    """A page that reloads itself has a button that ends it, and the choice outlasts a reload."""
    with tab(chromium, Site(pages()), 1280) as page:
        page.goto(ORIGIN + "/")
        page.get_by_role("button", name="Pause updates").click()
        page.reload()
        assert page.get_by_role("button", name="Resume updates").is_visible()
