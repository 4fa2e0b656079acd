"""Breakers and pauses of an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.cli.remote.client import Client, segment
from consumer.cli.remote.subscriptions import found, identity_of, name_of
from consumer.cli.values.holds import PausesAfter, Set
from consumer.core.changes.steps import Address
from consumer.core.subscription.pauses import Scope


class RemoteBreakers:
    """The breakers of all workers, for the endpoints that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def rows(self) -> Sequence[Mapping[str, object]]:
        """Return a row for each endpoint on hold."""
        rows: Sequence[Mapping[str, object]] = self._client.get("/v1/breakers").body["items"]
        return rows

    def reset(self, wanted: Address) -> Set:
        """Close a breaker in every worker, end a rest, and send the waiting deliveries."""
        subscription, done = self._post(wanted, "reset")
        return Set(
            identity=identity_of(subscription),
            heard=done["heard"],
            released=done["released"],
            warnings=done["unread"],
        )

    def force_open(self, wanted: Address) -> Set:
        """Open a breaker in every worker until a reset."""
        subscription, done = self._post(wanted, "open")
        return Set(identity=identity_of(subscription), heard=done["heard"])

    def _post(self, wanted: Address, step: str) -> tuple[dict[str, Any], Any]:
        subscription, _ = found(self._client, name_of(wanted))
        return subscription, self._client.post(f"/v1/endpoints/{segment(subscription['id'])}/{step}")


class RemotePauses:
    """The pauses that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def listed(self) -> PausesAfter:
        """Return all pauses."""
        return _after(self._client.get("/v1/pauses").body)

    def add(self, scope: Scope, name: str) -> PausesAfter:
        """Pause a scope."""
        return _after(self._client.post("/v1/pauses", {"scope": scope.value, "name": name}))

    def lift(self, scope: Scope, name: str) -> PausesAfter:
        """Lift the pause of a scope, and send its waiting deliveries."""
        return _after(self._client.post("/v1/pauses/lift", {"scope": scope.value, "name": name}))


def _after(done: Mapping[str, Any]) -> PausesAfter:
    return PausesAfter(
        rows=done["items"],
        changed=done["changed"],
        released=done.get("released", 0),
        warnings=done.get("warnings", ()),
    )
