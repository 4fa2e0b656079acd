"""Let an object that is built early report to others that are built later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Listeners(Generic[P]):
    """The listeners to one kind of event; each hears it at once, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: list[Callable[P, None]] = []

    def add(self, listener: Callable[P, None]) -> None:
        """Let *listener* hear every event from now on."""
        self._all.append(listener)

    def notify(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener; an error of one ends the call."""
        for listener in self._all:
            listener(*args, **kwargs)
