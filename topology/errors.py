"""Why a plan cannot stand on a broker; each text ends with the remedy."""

from __future__ import annotations

from topology.plan import Difference


class TopologyError(Exception):
    """The plan cannot stand on this broker as it is; the text ends with the remedy."""


class TopologyConflict(TopologyError):
    """Something stands on the broker under one of our names, but differs from the plan.

    Attributes:
        difference: What it is.
    """

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        kind = difference.kind
        super().__init__(
            f"{kind} {difference.name}: {difference}; set the setting back, or drain and delete the {kind}, "
            "or choose another [topology] prefix"
        )


class PluginMissing(TopologyError):
    """The broker does not know an exchange type; RabbitMQ 3 closes the connection over it, 4 the channel."""


class ExchangeMissing(TopologyError):
    """An exchange of the user's that a source names does not exist."""


class NotPermitted(TopologyError):
    """The user lacks a right on one of our names."""
