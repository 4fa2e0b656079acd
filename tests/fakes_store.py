"""A store in memory that keeps the same promises as the file; checked by the same contract suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from consumer.core.signing import format_secret
from consumer.core.subscription import Subscription
from consumer.core.subscription_model import SubscriptionEntry, SubscriptionRules
from consumer.core.subscription_set import Merge, StoredEntry, merge


def counting_secrets() -> Callable[[], str]:
    """Return a maker of secrets that are all different and the same in every run."""
    numbers = count(1)
    return lambda: format_secret(next(numbers).to_bytes(32, "big"))


class MemoryStore:
    """Subscriptions in memory. Implements ``ports.Store``.

    Attributes:
        failure: Raised by every call while it is set: a store that is away (FAULTS 68).
    """

    def __init__(self, rules: SubscriptionRules | None = None) -> None:
        self.failure: Exception | None = None
        self._rules = rules or SubscriptionRules()
        self._entries: Sequence[StoredEntry] = ()
        self._make_secret = counting_secrets()
        self._version = 0
        self._loaded = 0

    async def load(self) -> Sequence[Subscription]:
        """Return every subscription, enabled or not."""
        self._fail()
        self._loaded = self._version
        return tuple(entry.build(self._rules) for entry in self._entries)

    async def disable(self, subscription_id: str, reason: str) -> None:
        """Set ``enabled: false`` and remember why. Unknown ids are ignored."""
        self._fail()
        entries = list(self._entries)
        for index, entry in enumerate(entries):
            if entry.id == subscription_id and entry.enabled:
                notes = {"enabled": False, "disabled_reason": reason, "disabled_at": "2026-01-01T00:00:00Z"}
                entries[index] = entry.model_copy(update=notes)
                self._version += 1
        self._entries = tuple(entries)

    async def apply(
        self, wanted: Sequence[SubscriptionEntry], *, prune: bool = False, enable: bool = False
    ) -> Merge:
        """Bring *wanted* into the store and return what changed."""
        self._fail()
        merged = merge(self._entries, wanted, self._make_secret, prune=prune, enable=enable)
        if merged.added or merged.changed or merged.removed:
            self._version += 1
        self._entries = tuple(merged.entries)
        return merged

    def entries(self) -> Sequence[StoredEntry]:
        """Return the entries as they are kept."""
        return self._entries

    def changed(self) -> bool:
        """Say whether there is something else than at the last :meth:`load`."""
        return self._version != self._loaded

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
