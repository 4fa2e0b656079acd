"""``python -m demo``: argv -> stage, play -> the account -> exit code.

0: all deliveries are accounted for, or somebody ended an unbounded play. 1: some are not, or a part failed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from consumer.core.errors import LeveretError
from demo import view
from demo.play import Bounds, Outcome, Play
from demo.screen import Lines, Picture
from demo.stage import Stage, setting

BOUNDED_S: Final = 30.0  #: seconds of events, without a terminal
PIPE_WIDTH: Final = 160  #: columns of the output, without a terminal
EXAMPLES: Final = 10  #: unaccounted pairs that are named, at most


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    options = _parser().parse_args(arguments)
    console = _console()
    seconds = options.seconds
    if seconds is None and not console.is_terminal:
        seconds = BOUNDED_S
    bounds = Bounds(seconds=seconds, rate_per_s=options.rate, patience_s=options.patience)
    for name in ("aiormq", "aio_pika"):  # we report each fault once, by ourselves
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    try:
        with ExitStack() as stack:
            stage = stack.enter_context(setting(options.home.resolve(), _say))
            stack.callback(_ignore_signals)  # all that was started must end in any case
            outcome = asyncio.run(_play(stage, bounds, console, options.home))
            _report(console, outcome, bounded=seconds is not None)
    except KeyboardInterrupt:
        _say("stopped while it started")
        return 130
    except (LeveretError, RuntimeError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    if outcome.stopped:
        return 0 if seconds is None else 130
    return 1 if outcome.unaccounted or outcome.faults or not outcome.pairs else 0


def _console() -> Console:
    """Return the console; colour variables of the environment do not turn a pipe into a terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=PIPE_WIDTH, force_terminal=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="See Leveret work, on a private broker."
    )
    parser.add_argument(
        "--seconds", type=float, help="publish for this long, then check; absent: on a terminal until Ctrl-C"
    )
    parser.add_argument("--rate", type=float, default=20.0, help="events a second (default 20)")
    parser.add_argument(
        "--home", type=Path, default=Path(".leveret-demo"), help="state folder, removed at the end"
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds after the last event until all must have ended"
    )
    return parser


async def _play(stage: Stage, bounds: Bounds, console: Console, home: Path) -> Outcome:
    links = _links(stage, home)
    console.print(view.links(links))
    drawn = console.is_terminal and not console.is_dumb_terminal
    screen = Picture(console, links) if drawn else Lines(console)
    return await Play(stage, bounds, screen).run()


def _links(stage: Stage, home: Path) -> Sequence[tuple[str, str]]:
    command = f"LEVERET_HOME={home} {_near(Path(sys.executable).with_name('leveret'))}"
    return (
        ("health", f"{stage.health_url}/readyz"),
        ("metrics", f"{stage.health_url}/metrics"),
        ("RabbitMQ", f"{stage.broker.management_url}  (its login: next line)"),
        ("", f"{command} broker status --show-secrets"),
        ("given up", f"{command} parked list"),
    )


def _near(path: Path) -> Path:
    """Return *path* relative to the current folder if it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _report(console: Console, outcome: Outcome, *, bounded: bool) -> None:
    """Print the account."""
    console.print()
    console.print(view.endpoints(outcome.now))
    if outcome.stopped:
        console.print("stopped" + (": nothing was checked" if bounded else ""))
        return
    console.print(outcome.note)
    for fault in outcome.faults:
        console.print(f"FAULT: {fault}")
    for pair in outcome.unaccounted[:EXAMPLES]:
        console.print(f"UNACCOUNTED: event {pair.event_id} for endpoint {pair.endpoint}")
    console.print(f"unaccounted: {len(outcome.unaccounted)} of {outcome.pairs} deliveries")


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
