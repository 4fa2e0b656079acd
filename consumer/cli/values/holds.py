"""The values that commands and sources of breakers, pauses and waiting deliveries pass to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consumer.cli.values.subscriptions import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """A breaker that was set in every worker."""

    identity: Identity  #: of its subscription
    heard: bool  #: whether a worker listens
    released: int | None = None  #: waiting deliveries that are sent now; None: none were to be sent
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PausesAfter:
    """The pauses after a command."""

    rows: Sequence[Mapping[str, object]]
    changed: bool  #: whether the command added or lifted one
    released: int = 0  #: waiting deliveries that are sent now
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The waiting deliveries that a pass met."""

    rows: Sequence[Mapping[str, object]]
    broken: str | None = None  #: why it ended early; the rows are done
    warnings: Sequence[str] = ()
