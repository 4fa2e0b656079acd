"""Every page in Chromium: accessible in both colour schemes, inside its policy, and readable at 400 px."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from playwright.sync_api import Browser

from docs.page_preview.browser import HEIGHT, ORIGIN, SCHEMES, browser, tab
from docs.page_preview.judge import faults, missing, overflow, violations
from docs.page_preview.pages import named, pages
from docs.page_preview.site import Site
from tests.web.pages.hostile import hostile

WIDTHS = (1280, 400)  #: of the window, in CSS pixels


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run one browser for all tests of this module."""
    assert not missing(), f"missing: {missing()}; run `make browser-install`"
    with browser() as started:
        yield started


def test_pages_are_accessible(chromium: Browser) -> None:
    """axe-core finds nothing serious on any page, and no page breaks its policy or overflows."""
    with tab(chromium, Site(pages()), WIDTHS[0]) as page:
        found = faults(page)
        for name, path in named().items():
            page.goto(ORIGIN + path)
            for width, scheme in product(WIDTHS, SCHEMES):
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.emulate_media(color_scheme=scheme)
                assert (name, width, scheme, violations(page)) == (name, width, scheme, [])
                assert (name, width, scheme, overflow(page)) == (name, width, scheme, 0)
            assert (name, found) == (name, [])


def test_hostile_text_breaks_no_layout(chromium: Browser) -> None:
    """Long and hostile texts run no script, break no policy and make no page wider than its window."""
    site = Site({path: hostile(page) for path, page in pages().items()})
    with tab(chromium, site, WIDTHS[0]) as page:
        found = faults(page)
        for name, path in named().items():
            page.goto(ORIGIN + path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                assert (name, width, overflow(page)) == (name, width, 0)
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
