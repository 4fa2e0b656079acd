"""Judge the books of a worker from outside."""

from __future__ import annotations

from consumer.core.books import Balance


def rest(balance: Balance) -> int:
    """Return the targets that were owed and are nowhere in the books."""
    accounted = balance.delivered + balance.parked + balance.cancelled + balance.waiting + balance.in_flight
    return balance.owed - balance.owed_again - accounted
