"""Take the pictures: ``python -m bench.pictures [--folder docs/pages] [--width 1280 ...]``."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path

from bench.pictures.camera import take
from bench.pictures.stage import ROUNDS, staged
from bench.prove import Bench

WIDTH = 1280


async def run(folder: Path, widths: list[int], rounds: int) -> None:
    """Set the stage and take the pictures; further widths go to folders of their own."""
    home = Path(tempfile.mkdtemp(prefix="leveret-pictures-"))
    bench = Bench(folder=home)
    try:
        async with staged(bench, rounds) as stage:
            for width in widths:
                target = folder if width == WIDTH else folder / str(width)
                await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
                bench.say(f"{await take(stage, target, width)} pictures are in {target}")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description="Take pictures of every page of the real product.")
    parser.add_argument("--folder", type=Path, default=Path("docs/pages"))
    parser.add_argument("--width", type=int, action="append", help=f"In CSS pixels; default: {WIDTH}.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="Rounds of events before the pictures.")
    chosen = parser.parse_args()
    asyncio.run(run(chosen.folder, chosen.width or [WIDTH], chosen.rounds))


if __name__ == "__main__":
    main()
