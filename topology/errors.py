"""Reasons why a plan cannot be created on a broker; each text ends with the remedy."""

from __future__ import annotations

from topology.plan import Difference


class TopologyError(Exception):
    """The plan cannot be created on this broker; the text ends with the remedy."""


class TopologyConflict(TopologyError):
    """A queue or exchange with one of our names exists on the broker, but differs from the plan.

    Attributes:
        difference: The property that differs.
    """

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        kind = difference.kind
        super().__init__(
            f"{kind} {difference.name}: {difference}; set the setting back, or drain and delete the {kind}, "
            "or choose another [topology] prefix"
        )


class PluginMissing(TopologyError):
    """The broker does not support an exchange type; RabbitMQ 3 then closes the connection, 4 the channel."""


class ExchangeMissing(TopologyError):
    """An exchange of the user, named by a source, does not exist."""


class NotPermitted(TopologyError):
    """The user lacks a right on one of our names."""
