"""The hands of an operator at a browser: a mouse, or only the keyboard. Both do the same few things."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from playwright.async_api import Locator, Page

STOPS_MAX = 400  #: stops of the Tab key on one page, before a control counts as out of reach


class Hands(Protocol):
    """What an operator does to a page."""

    async def press(self, control: Locator) -> None:
        """Activate a link or a button."""

    async def write(self, control: Locator, text: str) -> None:
        """Write *text* into a field."""


class Mouse:
    """Points and clicks."""

    async def press(self, control: Locator) -> None:
        """Click it."""
        await control.click()

    async def write(self, control: Locator, text: str) -> None:
        """Fill it."""
        await control.fill(text)


class Keyboard:
    """Presses keys only: Tab to reach a control, Enter to activate it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def press(self, control: Locator) -> None:
        """Reach it and press Enter."""
        await self._reach(control)
        await self._page.keyboard.press("Enter")

    async def write(self, control: Locator, text: str) -> None:
        """Reach it, select its content, and type over it."""
        await self._reach(control)
        await self._page.keyboard.press("Control+A")
        await self._page.keyboard.type(text)

    async def _reach(self, control: Locator) -> None:
        """Press Tab until *control* has the focus.

        Raises:
            LookupError: the Tab key does not reach it.
        """
        await control.wait_for()
        for _ in range(STOPS_MAX):
            if await control.evaluate("(it) => it === document.activeElement"):
                return
            await self._page.keyboard.press("Tab")
        raise LookupError(f"the Tab key does not reach {control}")


async def reload_until(page: Page, path: str, seen: Callable[[], Awaitable[bool]], wait_s: float) -> None:
    """Load *path* again each second until *seen*, as a person without a script does.

    Raises:
        TimeoutError: it was not seen within *wait_s*.
    """
    for _ in range(max(1, round(wait_s))):
        await page.goto(path)
        if await seen():
            return
        await page.wait_for_timeout(1_000)
    raise TimeoutError(f"{path} did not show it within {wait_s:g} s")
