"""What each tenant holds over all shares, and how much of it is too much while others wait.

Data flow: FairQueue.pop adds a job's deliveries to its tenant's account -> ended -> taken off again;
core.lending sets how much may be borrowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

#: How much of the capacity a tenant may hold, times its part of the weights, where that is over its cap:
#: who is slower than the others needs more room for the same deliveries.
EARNED: Final = 1.5
#: Lines and accounts without work that are remembered before the settled ones are looked for.
REMEMBERED: Final = 64


class Claim(Protocol):
    """What the scheduler reads and writes of a job."""

    tenant: str
    cost: int  #: deliveries; set when it is popped, to what the tenant's job before it cost


@dataclass(slots=True, eq=False)
class Account:
    """One tenant over all shares."""

    weight: float
    in_flight: int = 0  #: deliveries of the jobs that were popped and have not ended
    done: int = 0  #: deliveries of the jobs that have ended, since the account was opened
    lines: int = 0  #: that refer to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much one tenant may hold while others wait.

    Over its cap a tenant is passed over while another has work. What nobody else wants it may borrow,
    as far as :class:`consumer.core.fairness.borrow_limit.BorrowLimit` lets it.
    """

    capacity: int = 1_000_000  #: deliveries in flight, all tenants together
    share: float = 0.25  #: of the capacity; a tenant may hold one and a half times what its weight earns
    reserve: float = 0.1  #: of the capacity: kept for tenants under their cap while there are such

    @property
    def floor(self) -> int:
        """Deliveries in flight under which no tenant is over its cap."""
        return max(1, int(self.capacity * self.share))

    @property
    def reserved(self) -> int:
        """Slots that are kept for tenants under their cap: none where there are only a few."""
        return int(self.capacity * self.reserve)


def equal(_tenant: str) -> float:
    """Weigh every tenant alike."""
    return 1.0


class Accounts:
    """What is known of each tenant that has work."""

    def __init__(self, caps: Caps, weight_of: Callable[[str], float] = equal) -> None:
        self.floor = caps.floor
        self.borrow = caps.capacity - caps.reserved  #: deliveries that one may hold where nobody else waits
        self._most = self.borrow
        self._earned = caps.capacity * EARNED
        self._weight_of = weight_of
        self._known: dict[str, Account] = {}
        self._forget_at = REMEMBERED

    def of(self, tenant: str) -> Account:
        """Return the account of *tenant*; a new one when it has none."""
        known = self._known.get(tenant)
        if known is None:
            if len(self._known) >= self._forget_at:
                self._known = {name: a for name, a in self._known.items() if a.in_flight or a.lines}
                self._forget_at = 2 * len(self._known) + REMEMBERED
            known = self._known[tenant] = Account(self._weight_of(tenant))
        return known

    def ended(self, job: Claim) -> None:
        """A popped job came to its end."""
        account, cost = self._known[job.tenant], job.cost
        account.in_flight -= cost
        account.done += cost

    def is_over(self, account: Account, weights: float) -> bool:
        """Whether the tenant holds more than its cap, where those of *weights* in all wait with it."""
        held = account.in_flight
        if held < self.floor:
            return False
        return held >= self._most or held * weights >= self._earned * account.weight

    def held(self) -> dict[str, int]:
        """Return deliveries in flight by tenant, of those that have any."""
        return {tenant: a.in_flight for tenant, a in self._known.items() if a.in_flight}

    def done(self) -> dict[str, float]:
        """Return by tenant the deliveries that have ended, over the tenant's weight.

        A tenant that had no work for a while may be missing, and begins anew at 0.
        """
        return {tenant: a.done / a.weight for tenant, a in self._known.items()}
