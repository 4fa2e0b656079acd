"""Where the subscriptions of the commands are: in the store, or behind an API.

Data flow: command -> :class:`Subscriptions` -> values -> output of the command, which is the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from consumer.cli.remote.choice import chosen
from consumer.cli.remote.subscriptions import RemoteSubscriptions
from consumer.cli.subscriptions.stored import StoredSubscriptions
from consumer.cli.values.subscriptions import Exported, Files, How, Rotated, Rotation, Tried
from consumer.core.changes.report import Report
from consumer.core.changes.steps import Address
from consumer.settings import load_settings


class Subscriptions(Protocol):
    """Reads and changes subscriptions. Each method raises a LeveretError for what it cannot do."""

    def listed(self, tenant: str | None) -> Sequence[Mapping[str, object]]:
        """Return a row for each subscription, by tenant and name; None: of every tenant."""

    def details(self, wanted: Address) -> Mapping[str, object]:
        """Return every effective setting of one subscription."""

    def exported(self, tenant: str | None, *, secrets: bool) -> Exported:
        """Return a subscriptions file."""

    def add(self, values: Mapping[str, object]) -> Report:
        """Add one subscription, with the fields of a subscriptions file."""

    def remove(self, wanted: Sequence[Address], how: How) -> Report:
        """Remove subscriptions, all or nothing, or plan it."""

    def apply(self, files: Files, how: How) -> Report:
        """Bring files into the store, all or nothing, or plan it."""

    def enable(self, wanted: Address) -> Report:
        """Send again to a subscription."""

    def disable(self, wanted: Address, reason: str) -> Report:
        """Send nothing to a subscription until it is enabled again."""

    def rotate(self, wanted: Address, rotation: Rotation) -> Rotated:
        """Change the signing secrets of a subscription."""

    def test(self, wanted: Address) -> Tried:
        """Send one test event."""


def subscriptions() -> Subscriptions:
    """Return the subscriptions of the server that was named, or else those of the store.

    Raises:
        ConfigError: the settings of the store are not usable.
    """
    client = chosen()
    return StoredSubscriptions(load_settings()) if client is None else RemoteSubscriptions(client)
