"""Drive Debian's Chromium over the real pages: log in, watch for scripts and policy reports, run axe-core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from docs.page_preview.browser import CHROMIUM, HEIGHT, Scheme
from tests.support.data import ROOT

AXE = ROOT / "build" / "axe" / "axe.min.js"
SERIOUS = ("serious", "critical")
WIDTH = 1280
PATIENCE_MS = 60_000

WATCH = """
addEventListener('securitypolicyviolation', (e) => console.error('policy ' + e.violatedDirective));
for (const name of ['alert', 'confirm', 'prompt', 'print']) {
  window[name] = () => console.error('executed ' + name);
}
"""
"""Runs before the page: a report of its policy, or a call of a hostile script, becomes an error line."""


@dataclass(slots=True)
class Faults:
    """What a page reported: errors of its console, reports of its policy, dialogs, scripts that failed."""

    found: list[str] = field(default_factory=list)

    async def watch(self, page: Page) -> None:
        """Collect from *page* from now on."""

        # a function, as playwright sets an attribute on the object of a method, and this one has slots
        async def dismiss(dialog: Any) -> None:
            self.found.append(f"dialog {dialog.message}")
            await dialog.dismiss()

        await page.add_init_script(WATCH)
        page.on("console", lambda line: self.found.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.found.append(f"script {error}"))
        page.on("dialog", dismiss)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Run Chromium without a window; it shows only our own pages, so its sandbox is off for root's sake."""
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def tab(
    started: Browser,
    url: str,
    token: str,
    *,
    scheme: Scheme = "light",
    script: bool = True,
    width: int = WIDTH,
) -> AsyncIterator[Page]:
    """Open a tab on the site at *url* that is logged in with *token*.

    Args:
        started: The browser.
        url: The site.
        token: Of the user.
        scheme: Colours that the user prefers.
        script: False turns JavaScript off.
        width: Of the window, in CSS pixels.
    """
    context = await started.new_context(
        base_url=url,
        viewport={"width": width, "height": HEIGHT},
        color_scheme=scheme,
        java_script_enabled=script,
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = await context.new_page()
        await page.goto("/login")
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(lambda address: "/login" not in address)
        yield page
    finally:
        await context.close()


async def open_still(page: Page, path: str) -> None:
    """Go to *path*, and end the timers of the page: a page that reloads itself would abort the next step."""
    await page.goto(path)
    await page.evaluate(
        "() => { for (let timer = setTimeout(() => {}); timer; timer--) clearInterval(timer); }"
    )


async def violations(page: Page) -> list[str]:
    """Return the serious and critical violations that axe-core finds on a page, one for each element."""
    await page.evaluate(AXE.read_text("utf-8"))
    result: dict[str, Any] = await page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]
