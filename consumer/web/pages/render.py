"""Render a view as HTML.

Data flow: a view -> its template, with every text made visible and escaped -> HTML text.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from consumer.core.history.wording import describe
from consumer.web.pages import charts, filters, urls, words
from consumer.web.pages.views.parts import Page

HERE: Final = Path(__file__).parent
STATIC: Final = HERE / "static"  #: the files under :data:`consumer.web.pages.urls.STATIC`

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""Value of the header ``content-security-policy`` of every page."""


def render(page: Page) -> str:
    """Return the HTML of *page*."""
    return _environment().get_template(page.template).render(page=page, shell=page.shell)


def _finalize(value: object) -> object:
    """Make every text visible that a template prints; a number or finished markup stays as it is."""
    return filters.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _block(text: str) -> Markup:
    """Return text of several lines, escaped; :func:`_finalize` would escape its line breaks."""
    return Markup.escape(filters.block(text))


def _content(body: bytes) -> filters.Shown:
    shown = filters.content(body)
    return shown._replace(text=Markup.escape(shown.text))


def _excerpt(body: bytes, most: int) -> Markup:
    """Return the start of a body as escaped text; a cut after the escaping could divide a ``&#34;``."""
    return Markup.escape(filters.brief(filters.content(body).text, most))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        **{name: getattr(filters, name) for name in ("number", "percent", "duration", "size", "brief")},
        **{name: getattr(filters, name) for name in ("clock_time", "full_time", "machine_time", "ago")},
        "short_duration": filters.short_duration,
        "counted": filters.counted,
        "block": _block,
        "content": _content,
        "excerpt": _excerpt,
        "badge": words.badge,
        "tone": words.tone_of,
        "sentence": words.sentence,
        "described": describe,
        "sparkline": charts.sparkline,
    }
    environment.globals |= {"urls": urls, "asset": _asset}
    return environment


@cache
def static_mark(name: str) -> str:
    """Return the mark in the address of a static file, which changes with the content of the file."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


def _asset(name: str) -> str:
    """Return the address of a static file."""
    return f"{urls.STATIC}/{name}?v={static_mark(name)}"
