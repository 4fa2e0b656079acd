"""Show the demo: as a picture that is redrawn, or as a line every few seconds.

Data flow: Snapshot -> Screen.show -> terminal or pipe; at the end the account.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final, Protocol

from rich.console import Console
from rich.live import Live

from demo import view
from demo.view import Snapshot

LINE_S: Final = 5.0  #: seconds between two lines
FRAMES_PER_S: Final = 4


class Screen(Protocol):
    """Shows the progress of the demo."""

    def drawing(self) -> AbstractContextManager[None]:
        """Show snapshots while this context is open."""

    def show(self, now: Snapshot) -> None:
        """Show this snapshot."""


class Picture:
    """Draws on a terminal."""

    def __init__(self, console: Console, links: Sequence[tuple[str, str]]) -> None:
        self._links = links
        self._live = Live(console=console, refresh_per_second=FRAMES_PER_S, transient=True)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw; at the end the terminal shows its former content again."""
        with self._live:
            yield

    def show(self, now: Snapshot) -> None:
        """Draw this snapshot."""
        self._live.update(view.live(replace(now, links=self._links)))


class Lines:
    """Prints a line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = LINE_S

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Prepare nothing."""
        yield

    def show(self, now: Snapshot) -> None:
        """Print this snapshot if a line is due."""
        if now.seconds >= self._next_s:
            self._next_s += LINE_S
            self._console.print(view.line(now))
