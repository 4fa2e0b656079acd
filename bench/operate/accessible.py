"""Serious and critical violations that axe-core finds on the real pages, light and dark."""

from __future__ import annotations

from collections.abc import Sequence

from bench.operate.browser import Faults, browser, tab, violations
from bench.operate.foreign import app_of
from bench.operate.ground import TENANT, laid_out
from bench.operate.places import customer_pages, operator_pages, unseen
from bench.prove import Bench, Goal, Measured, Proof
from docs.page_preview.browser import SCHEMES

LOGIN = "/login"

GOALS = (Goal(name="accessibility_violations", text="0", unit="elements", n=40),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Look at every page in both colour schemes; a page that no path of ours shows spoils the figure."""
    found: list[str] = []
    looks = 0
    async with laid_out(bench) as ground, browser() as started:
        mine = await ground.api.token("--scope", "operate", "--tenant", TENANT)
        views = ((ground.admin, operator_pages(ground.ids)), (mine, customer_pages(ground.ids)))
        for scheme in SCHEMES:
            for token, pages in views:
                async with tab(started, ground.api.url, token, scheme=scheme) as page:
                    faults = Faults()
                    await faults.watch(page)
                    for name, path in {**pages, "login": LOGIN}.items():
                        await page.goto(path)
                        looks += 1
                        found += [f"{name} {scheme}: {each}" for each in await violations(page)]
        missed = unseen(app_of(ground), [LOGIN, *views[0][1].values(), *views[1][1].values()])
    bench.note("accessibility_found", found[:30])
    bench.note("accessibility_pages_missed", missed)
    return [Measured(name="accessibility_violations", value=len(found), n=looks, valid=not missed)]


PROOF = Proof("operate_accessible", GOALS, prove)
