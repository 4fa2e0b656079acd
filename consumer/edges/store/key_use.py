"""Values that describe the keys of the store to an operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """Counts of subscriptions by the state of their secrets after a rekey."""

    current: int  #: already sealed with the first key
    rekeyed: int  #: sealed with it now
    locked: int  #: no key at hand opens their secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """A key of the store and its use."""

    id: str
    is_at_hand: bool  #: whether the settings or the key file contain it
    is_first: bool  #: whether it seals new secrets
    subscriptions: int  #: number of subscriptions whose secrets it seals
