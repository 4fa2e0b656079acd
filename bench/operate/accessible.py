"""Serious and critical violations that axe-core finds on the real pages, light and dark."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.async_api import Browser

from bench.operate.browser import Faults, browser, open_still, tab, violations
from bench.operate.foreign import app_of
from bench.operate.ground import TENANT, Ground, laid_out
from bench.operate.places import customer_pages, operator_pages, unseen
from bench.prove import Bench, Goal, Measured, Proof
from docs.page_preview.browser import SCHEMES

LOGIN = "/login"

GOALS = (Goal(name="accessibility_violations", text="0", unit="elements", n=40),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Look at every page."""
    async with laid_out(bench) as ground, browser() as started:
        return await measure(bench, ground, started)


async def measure(bench: Bench, ground: Ground, started: Browser) -> Sequence[Measured]:
    """Look at every page in both colour schemes; a page that no path of ours shows spoils the figure."""
    found: list[str] = []
    looks = 0
    mine = await ground.api.token("--scope", "operate", "--tenant", TENANT)
    views = ((ground.admin, operator_pages(ground.ids)), (mine, customer_pages(ground.ids)))
    for scheme in SCHEMES[: bench.count(len(SCHEMES))]:
        for token, pages in views:
            some = list({**pages, "login": LOGIN}.items())[-bench.count(len(pages) + 1, 2) :]
            async with tab(started, ground.api.url, token, scheme=scheme) as page:
                faults = Faults()
                await faults.watch(page)
                for name, path in some:
                    await open_still(page, path)
                    looks += 1
                    found += [f"{name} {scheme}: {each}" for each in await violations(page)]
    missed = unseen(app_of(ground), [LOGIN, *views[0][1].values(), *views[1][1].values()])
    bench.note("accessibility_found", found[:30])
    bench.note("accessibility_pages_missed", missed)
    return [Measured(name="accessibility_violations", value=len(found), n=looks, valid=not missed)]


PROOF = Proof("operate_accessible", GOALS, prove)
