"""Judge a page in Chromium: its accessibility by axe-core, its errors, and the reports of its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from docs.page_preview.browser import CHROMIUM

AXE: Final = Path(__file__).resolve().parents[2] / "build" / "axe" / "axe.min.js"
SERIOUS: Final = ("serious", "critical")
_RUN_AXE: Final = "() => axe.run(document, {resultTypes: ['violations']})"
_OVERFLOW: Final = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
_WATCH_POLICY: Final = (
    "addEventListener('securitypolicyviolation', (e) => console.error('policy ' + e.violatedDirective));"
)
#: A page that reloads itself would abort the next step of its judge.
KEEP_STILL: Final = "window.setInterval = () => 0;"


def missing() -> list[Path]:
    """Return the programs that `make browser-install` installs and that are not there."""
    return [path for path in (Path(CHROMIUM), AXE) if not path.exists()]


def faults(page: Page) -> list[str]:
    """Keep the page from reloading itself; return a list that gets its errors and reports of its policy."""
    found: list[str] = []
    page.add_init_script(_WATCH_POLICY + KEEP_STILL)
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("dialog", lambda dialog: found.append(dialog.message))
    return found


def violations(page: Page) -> list[str]:
    """Return the serious and critical violations that axe-core finds."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    result: dict[str, Any] = page.evaluate(_RUN_AXE)
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


def overflow(page: Page) -> int:
    """Return the CSS pixels by which the page is wider than its window."""
    return int(page.evaluate(_OVERFLOW))
