"""Waiting deliveries of an API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from consumer.cli.remote.client import Client
from consumer.cli.remote.subscriptions import found
from consumer.cli.shared.resolve import is_id
from consumer.cli.shared.resolve import tenant as demand_tenant
from consumer.cli.values.holds import Passed
from consumer.core.message.waiting import Wanted


class RemoteWaiting:
    """The waiting deliveries that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def named(self, wanted: Wanted) -> Wanted:
        """Return *wanted* with the id of its subscription. An unknown id passes: its deliveries may wait."""
        if wanted.subscription is None or is_id(wanted.subscription):
            return wanted
        return replace(wanted, subscription=str(found(self._client, wanted.subscription)[0]["id"]))

    def listed(self, wanted: Wanted, limit: int | None) -> Passed:
        """Return the deliveries, the longest waits first."""
        return _passed(self._client.get("/v1/waiting", {**asdict(wanted), "limit": limit}).body)

    def kick(self, wanted: Wanted) -> Passed:
        """Send the deliveries at once."""
        return _passed(self._client.post("/v1/waiting/kick", {**asdict(wanted), "all": wanted == Wanted()}))

    def cancel(self, wanted: Wanted) -> Passed:
        """Archive the deliveries on the machine of the API, and cancel them."""
        return _passed(self._client.post("/v1/waiting/cancel", asdict(wanted)))

    def demand_known(self, wanted: Wanted) -> None:
        """Refuse an unknown name, after nothing was found.

        Raises:
            LeveretError: there is no such tenant or subscription.
        """
        if wanted.tenant is not None:
            tenants = {str(each["name"]) for each in self._client.items("/v1/tenants")}
            demand_tenant((), wanted.tenant, tenants)
        if wanted.subscription is not None:
            found(self._client, wanted.subscription)


def _passed(done: Mapping[str, Any]) -> Passed:
    return Passed(rows=done["items"], broken=done["broken"], warnings=done["warnings"])
