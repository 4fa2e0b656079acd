"""Render docs/runbook.md as the page that the daemon and `leveret serve` answer with.

Data flow: Markdown -> tokens of markdown-it (anchors on headings, no links to files) -> one HTML page.
The page is made here and checked in: nothing is parsed on a port without a login.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leveret: runbook</title>
<style>
:root {{ color-scheme: light dark; --line: #8886; --ground: #8882; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 62rem;
  margin: 0 auto; padding: 1rem 1.25rem 40vh; }}
h2 {{ margin-top: 2.5rem; padding-top: .5rem; border-top: 1px solid var(--line); }}
h2:target {{ border-top: 4px solid #c60; }}
nav ul {{ columns: 22rem; padding-left: 1.1rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }}
code {{ background: var(--ground); border-radius: 3px; padding: .1em .25em; font-size: .9em; }}
pre {{ background: var(--ground); border-radius: 5px; padding: .75rem 1rem; }}
pre code {{ background: none; padding: 0; white-space: pre-wrap; overflow-wrap: anywhere; }}
cite {{ font-size: .85em; opacity: .75; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


def slug(heading: str) -> str:
    """Return the anchor of a heading, as in the links of our documents."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def runbook_html(markdown: str) -> str:
    """Return the page of a document: its title, a list of its sections, and the sections."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    sections = [tokens[at + 1].content for at in _headings(tokens, "h2")]
    for at in (*_headings(tokens, "h1"), *_headings(tokens, "h2"), *_headings(tokens, "h3")):
        tokens[at].attrSet("id", slug(tokens[at + 1].content))
    for token in tokens:
        if token.type == "table_open":  # it scrolls on a narrow screen, by the keyboard too
            token.attrSet("tabindex", "0")
        token.children = _without_files(token.children or [])
    first = next(iter(_headings(tokens, "h2")), len(tokens))
    body = parser.renderer.render(tokens[:first], parser.options, {})
    body += _contents(sections) + parser.renderer.render(tokens[first:], parser.options, {})
    return _PAGE.format(body=body)


def _headings(tokens: Sequence[Token], tag: str) -> list[int]:
    return [at for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == tag]


def _contents(sections: Sequence[str]) -> str:
    plain = ((slug(text), html.escape(text.replace("`", ""))) for text in sections)
    items = "".join(f'<li><a href="#{anchor}">{text}</a></li>\n' for anchor, text in plain)
    return f'<nav aria-label="Sections">\n<ul>\n{items}</ul>\n</nav>\n'


def _without_files(children: Sequence[Token]) -> list[Token]:
    """Replace each link to another document of the repository by its text and the name of the document."""
    made: list[Token] = []
    files: list[str | None] = []
    for child in children:
        if child.type == "link_open":
            target = str(child.attrGet("href"))
            files.append(None if target.startswith(("#", "https://", "http://")) else target)
        file = files[-1] if files else None
        if child.type == "link_close":
            files.pop()
        if file is None or child.type not in ("link_open", "link_close"):
            made.append(child)
        elif child.type == "link_close":
            made.append(Token("html_inline", "", 0, content=f" <cite>(docs/{html.escape(file)})</cite>"))
    return made
