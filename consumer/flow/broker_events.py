"""Pass each report of the broker edge to the part of the flow that it concerns.

Data flow: consumer.edges.broker.edge -> :class:`BrokerEvents` -> Router, DeadLetters, Control, Subscriptions,
Agreement, Returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from consumer.flow.control import Control
from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.flow.deliver.router import Router
from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.returns import Returns
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Incoming, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvents:
    """Implements :class:`consumer.ports.BrokerListener`."""

    router: Router
    dead_letters: DeadLetters
    commands: Control
    subscriptions: Subscriptions
    agreement: Agreement
    returns: Returns

    def deliver(self, source: Source, incoming: Incoming) -> None:
        """Pass a message to the dead letters or to the intake, unless it is only a check."""
        if source in (Source.OVERFLOW, Source.EXPIRED):
            self.dead_letters.offer(incoming, expired=source is Source.EXPIRED)
        elif not self.returns.offer(source, incoming):
            self.router.intake.offer(source, incoming)

    def reopened(self) -> None:
        """Drop the messages of a channel that was lost."""
        self.router.intake.forget_dead()

    def relieved(self) -> None:
        """Start the jobs that waited for the end of back-pressure."""
        self.router.intake.pump()

    def connected(self) -> None:
        """Compare the store with the broker's record of it."""
        self.subscriptions.ask()

    def listening(self) -> None:
        """Ask other workers for the messages that this one missed."""
        self.agreement.listening()
        self.returns.listening()

    def control(self, body: bytes) -> None:
        """Carry out a control message, or take the report in it."""
        if not self.returns.heard(body):
            self.commands.take(body)
