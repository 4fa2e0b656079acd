"""Draw the previews: ``python -m bench.previews [--folder docs/dashboards] [--seconds 300]``."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.operate.browser import browser
from bench.pictures.camera import squeeze
from bench.previews.answers import Asker
from bench.previews.graph import Mark
from bench.previews.page import WIDTH, Drawer
from bench.previews.stage import watched
from bench.prove import Bench
from docs.page_preview.browser import SCHEMES
from grafana.markers import MARKERS
from tests.support.processes.prometheus import Prometheus
from tests.support.repository.grafana_files import DASHBOARDS, read_board

SECONDS = 300.0


async def run(folder: Path, seconds: float) -> None:
    """Set the stage, draw the pages, take the pictures."""
    home = Path(tempfile.mkdtemp(prefix="leveret-previews-"))
    bench = Bench(folder=home)
    try:
        async with watched(bench, seconds) as prometheus:
            pages = await asyncio.to_thread(_pages, prometheus, seconds)
        bench.say(f"{len(await _pictures(pages, folder))} pictures are in {folder}")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _pages(prometheus: Prometheus, seconds: float) -> dict[str, str]:
    """Return the page of each dashboard."""
    asker = Asker.over(prometheus, seconds)
    drawer = Drawer(asker, list(_marks(asker)), prometheus.alerts())
    return {path.stem: drawer.page(read_board(path)) for path in DASHBOARDS}


def _marks(asker: Asker) -> Iterator[Mark]:
    """Yield the marks of the time that is shown: the start of each run of values, or the value as a time."""
    for marker in MARKERS:
        for line in asker.series(marker.query.promql, marker.query.legend):
            at = line.last / 1_000 if marker.value_is_time else line.points[0][0]
            if asker.start <= at <= asker.end:
                yield Mark(at=at, colour=marker.colour)


async def _pictures(pages: dict[str, str], folder: Path) -> list[Path]:
    taken: list[Path] = []
    async with browser() as started:
        for scheme in SCHEMES:
            page = await started.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme=scheme)
            for name, text in pages.items():
                await page.set_content(text)
                taken.append(folder / f"{name}-{scheme}.png")
                await page.screenshot(path=taken[-1], full_page=True)
            await page.close()
    await squeeze(taken)
    return taken


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description="Draw previews of the dashboards from a real Prometheus.")
    parser.add_argument("--folder", type=Path, default=Path("docs/dashboards"))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="Of load before the pictures.")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(chosen.folder, chosen.seconds))


if __name__ == "__main__":
    main()
