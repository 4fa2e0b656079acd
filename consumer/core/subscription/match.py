"""Find the subscriptions that want an event, by compiled AMQP topic patterns.

Data flow: subscriptions (ports.Store) -> :class:`Matcher`, one index per tenant -> flow.fanout asks it for
(tenant, event type) -> targets. A change gives a new matcher that shares every other tenant's index.

Patterns without wildcards are one dictionary look-up; the others are looked at together, in
:mod:`consumer.core.subscription.wildcards`, at a cost that no pattern and no event type can make large.

Source: AMQP 0-9-1 topic exchange: ``*`` is exactly one word, ``#`` any number of words, also none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from consumer.core.errors import ConfigError
from consumer.core.subscription.subscription import Subscription
from consumer.core.subscription.wildcards import Wildcards

#: Remembered answers per matcher, and the longest answer worth remembering: about 16 MB at worst.
MEMO_ENTRIES: Final = 8192
MEMO_TARGETS: Final = 256

#: Longest pattern. Source: AMQP 0-9-1 short string.
PATTERN_MAX_CHARS: Final = 255
_PATTERN: Final = re.compile(r"(\*|#|[A-Za-z0-9_]+)(\.(\*|#|[A-Za-z0-9_]+))*")


def check_pattern(pattern: str) -> str:
    """Return *pattern* if an event type can fit it.

    Raises:
        ConfigError: it is too long or not made of words, ``*`` and ``#`` joined by single full stops.
    """
    if len(pattern) > PATTERN_MAX_CHARS:
        raise ConfigError(f"an event pattern has at most {PATTERN_MAX_CHARS} characters, got {len(pattern)}")
    if not _PATTERN.fullmatch(pattern):
        raise ConfigError(
            f"{pattern!r} is no event pattern: write words of A-Z a-z 0-9 _, or * for one word and # for any "
            "number of words, joined by single full stops"
        )
    return pattern


class _TenantIndex:
    """The compiled patterns of one tenant. Answers are in the order in which subscriptions were given."""

    __slots__ = ("_exact", "_off", "_wild", "_wildcards", "subscriptions")

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self.subscriptions = tuple(subscriptions)
        self._off: frozenset[int] = frozenset()  # positions that were switched off since
        self._exact: dict[str, list[int]] = {}  # pattern -> positions of the subscriptions that have it
        wild: dict[str, list[int]] = {}  # equal patterns are looked at once
        for position, subscription in enumerate(self.subscriptions):
            if subscription.enabled:
                for pattern in subscription.events:
                    known = wild if "*" in pattern or "#" in pattern else self._exact
                    known.setdefault(pattern, []).append(position)
        self._wildcards = Wildcards(list(wild))
        self._wild = list(wild.values())  # positions by the number of the pattern

    def match(self, event_type: str) -> tuple[Subscription, ...]:
        """Return the enabled subscriptions with a pattern that fits."""
        found = set(self._exact.get(event_type, ()))
        for number in self._wildcards.fitting(event_type.split(".")):
            found.update(self._wild[number])
        if self._off:
            found -= self._off
        subscriptions = self.subscriptions
        return tuple([subscriptions[position] for position in sorted(found)])

    def without(self, off: Subscription) -> _TenantIndex:
        """Return an index that shares the patterns of this one and never finds *off*."""
        known = self.subscriptions
        position = next(i for i, each in enumerate(known) if each.id == off.id)
        index = _TenantIndex(())
        index.subscriptions = (*known[:position], off, *known[position + 1 :])
        index._exact, index._wild, index._wildcards = self._exact, self._wild, self._wildcards
        index._off = self._off | {position}
        return index


class Matcher:
    """Every tenant's subscriptions, ready to be asked. Not changed after it was built, but for its memo."""

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
        """Return the tenant's enabled subscriptions that want this type of event, in their given order."""
        key = (tenant, event_type)
        known = self._memo.get(key)
        if known is not None:
            return known
        found = self.match_afresh(tenant, event_type)
        if len(found) <= MEMO_TARGETS:
            if len(self._memo) >= MEMO_ENTRIES:
                del self._memo[next(iter(self._memo))]  # the oldest
            self._memo[key] = found
        return found

    def match_afresh(self, tenant: str, event_type: str) -> tuple[Subscription, ...]:
        """Do what :meth:`match` does without its memo."""
        index = self._tenants.get(tenant)
        return () if index is None else index.match(event_type)

    def get(self, subscription_id: str) -> Subscription | None:
        """Return a subscription by its id, enabled or not."""
        return self._by_id.get(subscription_id)

    def replace(self, changes: Mapping[str, Sequence[Subscription]]) -> Matcher:
        """Return a matcher in which the tenants of *changes* have exactly these subscriptions.

        It costs what these tenants' subscriptions cost, whatever the others have.

        Raises:
            ValueError: one of them belongs to another tenant, or two have the same id.
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
        """Return a matcher in which *off*, switched off by now, is found by its id alone.

        It is one that the matcher has. No pattern is compiled: a 410 in a tenant of 10,000 subscriptions does
        not hold the event loop.
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
