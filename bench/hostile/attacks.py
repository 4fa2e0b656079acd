"""The attacks and the stage that they use. Every attack on the real daemon is in the list of one module here.

To add one: write ``async def strike(stage)`` that sends all of it and returns, put an :class:`Attack` into
the module's list, and that list into ``bench.hostile.loop.ATTACKS``. Build costly messages before the
first ``await``, or in ``prepare``: the stage's own work competes with the daemon for the processor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.broker import Broker
from bench.hostile.innocent import Innocent
from bench.prove import Bench
from tests.support.processes.daemon import Daemon

MESSAGES = 200  #: hostile messages, answers or files of one attack


@dataclass(slots=True)
class Stage:
    """Where an attack happens.

    Attributes:
        bench: Folder, scale, notes.
        broker: A private node.
        daemon: The real daemon, ready, with the attack's settings and subscriptions.
        innocent: The tenant that must not feel anything.
        name_server: ``ADDRESS:PORT`` of a name server that the daemon asks; ``bench.hostile.hosts`` defines
            its names.
        answers: ``http://127.0.0.1:PORT`` of a server whose path names a hostile answer; the same module.
    """

    bench: Bench
    broker: Broker
    daemon: Daemon
    innocent: Innocent
    name_server: str = ""
    answers: str = ""

    @property
    def messages(self) -> int:
        """How many hostile messages, answers or files an attack sends, by the scale."""
        return self.bench.count(MESSAGES)


Strike = Callable[[Stage], Awaitable[None]]


async def nothing(stage: Stage) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack, made while the innocent tenant publishes."""

    name: str  #: letters, digits and ``-``
    item: int  #: 1: work on the loop, 2: handles and memory, 3: forgery
    strike: Strike  #: sends all of it; the innocent tenant publishes meanwhile
    prepare: Strike = nothing  #: before the innocent tenant begins
    subscriptions: Callable[[Stage], Sequence[Mapping[str, object]]] = lambda _: ()  #: beside the innocent's
    settings: Mapping[str, str] = field(default_factory=dict)  #: of the daemon, ``LEVERET_...``
    handles: int | None = None  #: the daemon's hard limit of open files; None: as it is here
    seconds: float = 12.0  #: the innocent tenant publishes for so long
