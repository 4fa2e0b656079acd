"""The values that parked commands and their sources pass to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consumer.core.message.parked_filter import Filter
from consumer.core.message.records import ParkedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The parked entries of a filter, by the index."""

    rows: Sequence[ParkedRow] = field(repr=False)  #: the oldest first
    chosen: Filter  #: with the id of its subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One parked entry."""

    fields: Mapping[str, object]  #: as :func:`consumer.core.message.parked.entry_as_dict` names them
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """The entries that were archived and left the queue."""

    rows: Sequence[Mapping[str, object]]
    archive: str  #: folder of the archive
    broken: str | None = None  #: why the purge ended early
    interrupted: str = ""  #: what an interruption has left, if there was one


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The entries that were sent again."""

    rows: Sequence[Mapping[str, object]]
    stays: Mapping[str, str] = field(default_factory=dict)  #: id -> why the entry stays parked
    missing: Sequence[str] = ()  #: wanted ids that are not parked
    broken: str | None = None  #: why the replay ended early
    interrupted: str = ""  #: what an interruption has left, if there was one


STAYS = "interrupted; all entries that are not listed stay parked"
"""What an interruption of a command leaves that takes the entries itself."""
