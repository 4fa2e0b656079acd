"""Find the subscriptions that want an event, by compiled AMQP topic patterns.

Data flow: subscriptions (ports.Store) -> :class:`Matcher`, one index per tenant -> flow.deliver passes tenant
and event type -> targets. A change creates a new matcher that shares the indexes of all other tenants.

A pattern without wildcards is one dictionary look-up. The others are matched together in
:mod:`consumer.core.subscription.wildcards`, at a cost that is bounded for any pattern and event type.

Source: AMQP 0-9-1 topic exchange: ``*`` matches exactly one word, ``#`` any number of words, including none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from consumer.core.errors import ConfigError
from consumer.core.subscription.subscription import Subscription
from consumer.core.subscription.wildcards import Wildcards

#: Cached answers per matcher, and the most targets of a cached answer: about 16 MB at worst.
MEMO_ENTRIES: Final = 8192
MEMO_TARGETS: Final = 256

#: Longest pattern. Source: AMQP 0-9-1 short string.
PATTERN_MAX_CHARS: Final = 255
_PATTERN: Final = re.compile(r"(\*|#|[A-Za-z0-9_]+)(\.(\*|#|[A-Za-z0-9_]+))*")


def check_pattern(pattern: str) -> str:
    """Return *pattern* if it can match an event type.

    Raises:
        ConfigError: *pattern* is too long or contains more than words, ``*`` and ``#`` joined by full stops.
    """
    if len(pattern) > PATTERN_MAX_CHARS:
        raise ConfigError(f"an event pattern has at most {PATTERN_MAX_CHARS} characters, got {len(pattern)}")
    if not _PATTERN.fullmatch(pattern):
        raise ConfigError(
            f"{pattern!r} is not an event pattern: write words of A-Z a-z 0-9 _, or * for one word and # "
            "for any number of words, joined by single full stops"
        )
    return pattern


class _TenantIndex:
    """The compiled patterns of one tenant. Answers keep the order in which the subscriptions were given."""

    __slots__ = ("_exact", "_off", "_wild", "_wildcards", "subscriptions")

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self.subscriptions = tuple(subscriptions)
        self._off: frozenset[int] = frozenset()  # positions of subscriptions that were switched off later
        self._exact: dict[str, list[int]] = {}  # pattern -> positions of the subscriptions that have it
        wild: dict[str, list[int]] = {}  # equal patterns are matched once
        for position, subscription in enumerate(self.subscriptions):
            if subscription.enabled:
                for pattern in subscription.events:
                    known = wild if "*" in pattern or "#" in pattern else self._exact
                    known.setdefault(pattern, []).append(position)
        self._wildcards = Wildcards(list(wild))
        self._wild = list(wild.values())  # positions by the number of the pattern

    def match(self, event_type: str) -> tuple[Subscription, ...]:
        """Return the enabled subscriptions that have a matching pattern."""
        found = set(self._exact.get(event_type, ()))
        for number in self._wildcards.matching(event_type.split(".")):
            found.update(self._wild[number])
        if self._off:
            found -= self._off
        subscriptions = self.subscriptions
        return tuple([subscriptions[position] for position in sorted(found)])

    def without(self, off: Subscription) -> _TenantIndex:
        """Return an index that shares the patterns of this one and never returns *off*."""
        known = self.subscriptions
        position = next(i for i, each in enumerate(known) if each.id == off.id)
        index = _TenantIndex(())
        index.subscriptions = (*known[:position], off, *known[position + 1 :])
        index._exact, index._wild, index._wildcards = self._exact, self._wild, self._wildcards
        index._off = self._off | {position}
        return index


class Matcher:
    """The subscriptions of all tenants, compiled. Only its cache changes after construction."""

    __slots__ = ("_by_id", "_memo", "_tenants")

    def __init__(self, subscriptions: Iterable[Subscription] = ()) -> None:
        """Compile *subscriptions* of any tenants.

        Raises:
            ValueError: two subscriptions have the same id.
        """
        grouped: dict[str, list[Subscription]] = {}
        for subscription in subscriptions:
            grouped.setdefault(subscription.tenant, []).append(subscription)
        self._tenants: dict[str, _TenantIndex] = {t: _TenantIndex(s) for t, s in grouped.items()}
        self._by_id: dict[str, Subscription] = {}
        for index in self._tenants.values():
            _add_ids(self._by_id, index)
        self._memo: dict[tuple[str, str], tuple[Subscription, ...]] = {}

    def match(self, tenant: str, event_type: str) -> Sequence[Subscription]:
        """Return the tenant's enabled subscriptions for this event type, in their given order."""
        key = (tenant, event_type)
        known = self._memo.get(key)
        if known is not None:
            return known
        found = self.match_uncached(tenant, event_type)
        if len(found) <= MEMO_TARGETS:
            if len(self._memo) >= MEMO_ENTRIES:
                del self._memo[next(iter(self._memo))]  # the oldest
            self._memo[key] = found
        return found

    def match_uncached(self, tenant: str, event_type: str) -> tuple[Subscription, ...]:
        """Return the same as :meth:`match`, without the cache."""
        index = self._tenants.get(tenant)
        return () if index is None else index.match(event_type)

    def get(self, subscription_id: str) -> Subscription | None:
        """Return a subscription by its id, enabled or not."""
        return self._by_id.get(subscription_id)

    def replace(self, changes: Mapping[str, Sequence[Subscription]]) -> Matcher:
        """Return a matcher in which the tenants of *changes* have exactly these subscriptions.

        The cost depends only on the subscriptions of these tenants.

        Raises:
            ValueError: a subscription belongs to another tenant, or two have the same id.
        """
        changed = Matcher()
        changed._tenants = dict(self._tenants)
        changed._by_id = dict(self._by_id)
        for tenant in changes:
            before = changed._tenants.pop(tenant, None)
            for subscription in before.subscriptions if before else ():
                del changed._by_id[subscription.id]
        for tenant, subscriptions in changes.items():
            if any(subscription.tenant != tenant for subscription in subscriptions):
                raise ValueError(f"not every subscription given belongs to the tenant {tenant!r}")
            if subscriptions:
                index = changed._tenants[tenant] = _TenantIndex(subscriptions)
                _add_ids(changed._by_id, index)
        return changed

    def without(self, off: Subscription) -> Matcher:
        """Return a matcher that finds *off*, a subscription now switched off, only by its id.

        *off* must be one of this matcher's subscriptions. No pattern is compiled, so a 410 in a tenant of
        10,000 subscriptions does not block the event loop.
        """
        changed = Matcher()
        changed._by_id = {**self._by_id, off.id: off}
        changed._tenants = {**self._tenants, off.tenant: self._tenants[off.tenant].without(off)}
        return changed

    @property
    def subscriptions(self) -> Sequence[Subscription]:
        """Every subscription, enabled or not."""
        return tuple(self._by_id.values())


def _add_ids(by_id: dict[str, Subscription], index: _TenantIndex) -> None:
    for subscription in index.subscriptions:
        if by_id.setdefault(subscription.id, subscription) is not subscription:
            raise ValueError(f"two subscriptions have the id {subscription.id}")
