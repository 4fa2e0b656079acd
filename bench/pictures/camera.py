"""Take the pictures of every page in both colour schemes, and make them small."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from playwright.async_api import Page

from bench.operate.browser import browser, open_still, tab
from bench.operate.places import customer_pages, operator_pages
from bench.pictures.stage import Stage
from docs.page_preview.browser import SCHEMES, Scheme

LEFT_OUT: Final = ("parked-groups", "search-nothing", "missing", "my-search", "my-event", "runbook")
"""Pages that resemble another one."""
TALLEST: Final = 1_000  #: CSS pixels; a longer page is cut
SUMMED_S: Final = 120.0  #: longest wait for the sums of the history
COLOURS: Final = "64"


async def take(stage: Stage, folder: Path, width: int) -> int:
    """Write the pictures of all pages, *width* CSS pixels wide, into *folder*; return their number."""
    taken: list[Path] = []
    async with browser() as started:
        for scheme in SCHEMES:
            for token, pages in (
                (stage.admin, operator_pages(stage.ids)),
                (stage.customer, customer_pages(stage.ids)),
            ):
                async with tab(started, stage.api.url, token, scheme=scheme, width=width) as page:
                    for name, path in pages.items():
                        if name not in LEFT_OUT:
                            taken.append(await _picture(page, path, folder, (name, scheme)))
            async with tab(started, stage.api.url, stage.admin, scheme=scheme, width=width) as page:
                await page.context.clear_cookies()
                taken.append(await _picture(page, "/login", folder, ("login", scheme)))
    await squeeze(taken)
    return len(taken)


async def _picture(page: Page, path: str, folder: Path, of: tuple[str, Scheme]) -> Path:
    await _open_summed(page, path)
    target = folder / f"{of[0]}-{of[1]}.png"
    size = page.viewport_size
    assert size is not None
    tall = await page.evaluate("() => document.documentElement.scrollHeight")
    await page.set_viewport_size({"width": size["width"], "height": max(size["height"], min(tall, TALLEST))})
    await page.screenshot(path=target)
    await page.set_viewport_size(size)
    return target


async def _open_summed(page: Page, path: str) -> None:
    """Open a page once its numbers count the whole history.

    Raises:
        TimeoutError: they did not in time.
    """
    async with asyncio.timeout(SUMMED_S):
        await open_still(page, path)
        while await page.get_by_text("The history is still being summed up").count():
            await asyncio.sleep(0.5)
            await open_still(page, path)


async def squeeze(pictures: Sequence[Path]) -> None:
    """Reduce the colours of *pictures*, in place, with ``pngquant``."""
    command = ("pngquant", "--force", "--ext", ".png", "--strip", "--nofs", COLOURS)
    process = await asyncio.create_subprocess_exec(*command, *map(str, pictures))
    if await process.wait() != 0:
        raise RuntimeError("pngquant failed")
