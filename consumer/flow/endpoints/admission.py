"""The answers that an endpoint gives to a request for admission."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from consumer.core.model import Defer


class Send(NamedTuple):
    """Go: an endpoint slot is taken."""

    epoch: int  #: of the breaker, for the answer


class Wait(NamedTuple):
    """A slot is expected soon: wait for :meth:`Endpoint.slot`."""

    epoch: int


class Hold(NamedTuple):
    """Not now; no attempt is spent."""

    defer: Defer
    reason: str  #: breaker | paced | paused | slow | saturated | locked
    reserved: bool = False  #: it is this delivery's turn then: nothing that is fresh goes before


Admission: TypeAlias = Send | Wait | Hold
