"""Count what each tenant holds over all shares, and limit it while others wait.

Data flow: FairQueue.pop charges a job's deliveries to its tenant's account -> Accounts.ended takes them off;
core.fairness.borrow_limit sets how much one tenant may borrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

#: The part of the capacity that a tenant may hold is this times its part of the weights, where that is over
#: its cap: a tenant whose deliveries take longer needs more room for the same throughput.
EARNED: Final = 1.5
#: Tenant queues and accounts without work that are kept before the settled ones are removed.
REMEMBERED: Final = 64


class Claim(Protocol):
    """The part of a job that the scheduler reads, and the method that sets its cost."""

    tenant: str

    @property
    def cost(self) -> int:
        """Deliveries that the job is charged for."""

    def charge(self, deliveries: int) -> None:
        """Set the cost; a popped job starts with the cost of its tenant's job before it."""


@dataclass(slots=True, eq=False)
class Account:
    """One tenant over all shares."""

    weight: float
    in_flight: int = 0  #: deliveries of the jobs that were popped and have not ended
    done: int = 0  #: deliveries of the jobs that have ended, since the account was opened
    queues: int = 0  #: tenant queues that refer to it

    def charge(self, deliveries: int) -> None:
        """Add deliveries that are in flight from now on; a negative number takes some off."""
        self.in_flight += deliveries

    def settle(self, deliveries: int) -> None:
        """Count deliveries in flight as done."""
        self.in_flight -= deliveries
        self.done += deliveries

    def attach(self) -> None:
        """Count one more tenant queue that refers to the account."""
        self.queues += 1

    def detach(self) -> None:
        """Count one tenant queue less."""
        self.queues -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much one tenant may hold while others wait.

    The scheduler passes over a tenant that is over its cap while another tenant has work. A tenant may borrow
    unused slots up to the limit of :class:`consumer.core.fairness.borrow_limit.BorrowLimit`.
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
        """Slots that are kept for tenants under their cap; 0 where the capacity is small."""
        return int(self.capacity * self.reserve)


def equal(_tenant: str) -> float:
    """Weigh every tenant alike."""
    return 1.0


class Accounts:
    """The accounts of the tenants that have work.

    Attributes:
        floor: Deliveries in flight under which no tenant is over its cap.
        borrow: Deliveries that one tenant may have in flight where no other waits.
    """

    def __init__(self, caps: Caps, weight_of: Callable[[str], float] = equal) -> None:
        self.floor = caps.floor
        self.borrow = caps.capacity - caps.reserved
        self._most = self.borrow
        self._earned = caps.capacity * EARNED
        self._weight_of = weight_of
        self._known: dict[str, Account] = {}
        self._forget_at = REMEMBERED

    def of(self, tenant: str) -> Account:
        """Return the account of *tenant*; open one where there is none."""
        known = self._known.get(tenant)
        if known is None:
            if len(self._known) >= self._forget_at:
                self._known = {name: a for name, a in self._known.items() if a.in_flight or a.queues}
                self._forget_at = 2 * len(self._known) + REMEMBERED
            known = self._known[tenant] = Account(self._weight_of(tenant))
        return known

    def set_borrow_limit(self, most: int) -> None:
        """Let one tenant have *most* deliveries in flight where no other waits."""
        self.borrow = most

    def ended(self, job: Claim) -> None:
        """Settle a popped job that has ended."""
        self._known[job.tenant].settle(job.cost)

    def is_over(self, account: Account, weights: float) -> bool:
        """Return whether a tenant is over its cap; *weights* is the sum over all waiting tenants."""
        held = account.in_flight
        if held < self.floor:
            return False
        return held >= self._most or held * weights >= self._earned * account.weight

    def held(self) -> dict[str, int]:
        """Return deliveries in flight by tenant, of those that have any."""
        return {tenant: a.in_flight for tenant, a in self._known.items() if a.in_flight}

    def done(self) -> dict[str, float]:
        """Return by tenant the deliveries that have ended, over the tenant's weight.

        The account of a tenant without work may be removed: then its count begins anew at 0.
        """
        return {tenant: a.done / a.weight for tenant, a in self._known.items()}
