"""Every page is complete, safe against hostile text, and needs nothing from elsewhere."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from consumer.web.pages.render import STATIC, render
from consumer.web.pages.views.overview import OverviewPage, Trouble
from consumer.web.pages.views.parts import Page, Shell, Tone
from docs.page_preview.pages import named, pages
from docs.page_preview.site import Site
from tests.web.pages.hostile import hostile

STYLE_MAX_BYTES = 20_000
PAGES = {name: pages()[path] for name, path in named().items()}
VOID = {"meta", "link", "input", "br", "img", "circle", "path", "rect", "polyline", "polygon"}

each_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())


class Reader(HTMLParser):
    """Collects the tags of a page and checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each *tag*."""
        return [attributes for name, attributes in self.tags if name == tag]


@each_page
def test_nothing_is_inline_or_from_elsewhere(page: Page) -> None:
    """No style, script or handler is inline, and every address is ours."""
    read = Reader(render(page))

    assert "style" not in {tag for tag, _ in read.tags}
    for tag, attributes in read.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        for name in ("href", "src", "action"):
            assert re.match(r"(/(?!/)|\?|#|$)", attributes.get(name) or ""), (tag, attributes)


@each_page
def test_every_form_that_changes_something_has_the_csrf_field(page: Page) -> None:
    """A form with POST contains the hidden field; no other form does."""
    text = render(page)

    posts = re.findall(r'<form method="post"[^>]*>(<input type="hidden" name="csrf" value="sample">)?', text)
    assert all(posts)
    assert text.count('name="csrf"') == len(posts)


@each_page
def test_structure(page: Page) -> None:
    """A page has one heading of the first level, a main part, a skip link, a language, and unique ids."""
    read = Reader(render(page))
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]

    assert [len(read.all(tag)) for tag in ("h1", "main", "title")] == [1, 1, 1]
    assert read.all("html") == [{"lang": "en"}]
    assert read.all("a")[0] == {"class": "skip", "href": "#content"}
    assert len(ids) == len(set(ids))
    assert all("scope" in attributes for attributes in read.all("th"))


@each_page
def test_hostile_text_is_only_text(page: Page) -> None:
    """Whatever the texts contain, the page has the same tags, and no control character."""
    text, calm = render(hostile(page)), render(page)

    assert len(Reader(text).all("script")) == len(Reader(calm).all("script"))
    assert not [attributes for _, attributes in Reader(text).tags if "onerror" in attributes]
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "49W" not in text


def test_static_files_are_small_and_have_versions() -> None:
    """The stylesheet is under its limit, and each address changes with the content."""
    assert (STATIC / "leveret.css").stat().st_size < STYLE_MAX_BYTES
    assert re.search(r'href="/static/leveret\.css\?v=[0-9a-f]{12}"', render(PAGES["overview"]))


def test_a_page_reloads_itself_without_a_script() -> None:
    """Live progress needs no script: the reload is in a noscript element."""
    text = render(PAGES["job"])

    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in text
    assert "http-equiv" not in render(PAGES["audit"])


def test_the_preview_answers_unknown_paths() -> None:
    """A path without a sample is not found."""
    site = Site(pages())

    assert site.answer("/nothing").status == site.answer("/static/nothing").status == 404


@pytest.mark.parametrize("shift", range(5))
def test_an_answer_is_cut_between_characters(shift: int) -> None:
    """A quotation mark is five characters in HTML, and the cut is within none of them."""
    answer = "x" * shift + '"' * 400
    trouble = Trouble(tone=Tone.BAD, headline="An endpoint fails.", answer=answer.encode())

    html = render(OverviewPage(shell=Shell(now=0.0), troubles=[trouble]))

    assert f">{answer[:300]}…<" in unescape(html)
