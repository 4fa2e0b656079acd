"""The values that commands and sources of subscriptions pass to each other, from a store or from an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Identity = Mapping[str, object]
"""The fields that identify a subscription, see :func:`consumer.core.changes.view.identity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Subscriptions files to apply."""

    files: Sequence[tuple[str, str]]  #: name and text of each
    prune: bool = False  #: remove the subscriptions that they do not name
    enable: bool = False  #: enable those that were disabled by hand or by the daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a change of several subscriptions is made."""

    dry_run: bool = False  #: write nothing, and count the deliveries that removals would destroy
    may_remove: frozenset[str] = frozenset()  #: ids that the operator agreed to remove
    by: str = ""  #: the command, for the record of a removal


PLAN = How(dry_run=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A subscriptions file."""

    document: dict[str, object]
    faults: Sequence[str] = ()  #: a line for each subscription whose secrets were left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A change of the signing secrets."""

    secret: str | None = None  #: the new one; None: generated
    overlap: str = "24h"  #: duration in which the replaced one still signs
    drop_old: bool = False  #: add none, and end the overlap
    lost_key: bool = False  #: give up the secrets that the lost key sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """A subscription after it."""

    identity: Identity
    secrets: int  #: number of secrets that sign
    ends_at: Sequence[int]  #: Unix seconds at which each stops to sign; 0: no end
    secret: str | None  #: a generated one, to be shown this once
    public_key: str | None  #: with which receivers verify, for ed25519


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The outcome of a test event."""

    identity: Identity
    enabled: bool
    paused: bool
    result: Mapping[str, object]  #: the fields of the command's JSON
    advice: str | None  #: meaning and remedy of a failure


def described(identity: Identity) -> str:
    """Return a subscription as one line of text; not yet safe on a terminal."""
    return f"{identity['tenant']}/{identity['name']} -> {identity['url']}"
