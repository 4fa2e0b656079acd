"""The endpoints of a system test: their subscriptions, their secrets, and the requests that they got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.support.broker.load import secret_of
from tests.support.servers.receiver import Receiver
from tests.support.servers.requests import Received
from tests.support.system.waiting import PATIENCE_S, until

QUICK: Mapping[str, object] = {"max_attempts": 3, "base_s": 0.1, "multiplier": 1, "max_s": 1, "jitter": 0}
"""A retry policy of three attempts, 0.1 s apart."""


BREAKER_OFF: Mapping[str, object] = {"failures": 0}


def to(receiver: Receiver, target: str, tenant: str, **more: object) -> dict[str, object]:
    """Return one entry of a subscriptions file: all events of *tenant* to *target*, quick retries."""
    entry = {
        "tenant": tenant,
        "name": target,
        "url": receiver.url(target),
        "events": ["#"],
        "secrets": [secret(tenant, target)],
        "retry": dict(QUICK),
    }
    return entry | more


def secret(tenant: str, target: str) -> str:
    """Return the secret of the subscription that :func:`to` makes."""
    return secret_of(f"{tenant} {target}")


def requests_of(receiver: Receiver, target: str, event_id: str | None = None) -> list[Received]:
    """Return the requests that came to *target*, or those of one event, in their order."""
    return [r for r in receiver.requests if r.target == target and event_id in (None, r.webhook_id)]


def deliveries(receiver: Receiver, target: str) -> Counter[str]:
    """Return how often *target* answered each event with 200."""
    return Counter(r.webhook_id for r in receiver.requests if r.target == target and r.status == 200)


async def all_delivered(
    receiver: Receiver, target: str, ids: Sequence[str], timeout_s: float = PATIENCE_S
) -> Counter[str]:
    """Wait until *target* has taken every event of *ids*; return how often each."""
    wanted = set(ids)
    await until(
        lambda: wanted <= deliveries(receiver, target).keys(), f"{len(wanted)} events at {target}", timeout_s
    )
    return deliveries(receiver, target)
