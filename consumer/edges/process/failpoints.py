"""Kill this process at a chosen moment, for crash tests only.

The windows are around calls of the ports. So each port has a wrapper here, and without ``LEVERET_FAILPOINT``
none is made.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

from consumer.core.errors import ConfigError
from consumer.core.model import Outcome, SignedRequest
from consumer.core.retry.outcomes import is_success
from consumer.ports import BrokerListener, Incoming, Publication, Publisher, Sender, Source, Ticket

FAILPOINTS = (
    "after-take",
    "before-publish",
    "after-publish-before-confirm",
    "after-confirm-before-ack",
    "during-request",
    "after-2xx-before-ack",
)
"""Windows in which the crash tests kill the daemon."""

WRITTEN_S = 0.02  #: time for a publish or a request that was begun to be on the wire


class Failpoint:
    """Kills the process at the n-th passing of one named window."""

    def __init__(self, text: str) -> None:
        """Read ``<window>`` or ``<window>:<n>``.

        Raises:
            ConfigError: there is no such window, or n is not a positive number.
        """
        self.window, _, times = text.partition(":")
        if self.window not in FAILPOINTS:
            raise ConfigError(f"failpoint: {self.window!r} is not one of {', '.join(FAILPOINTS)}")
        if times and (not times.isdecimal() or int(times) < 1):
            raise ConfigError(f"failpoint: {times!r} is not a number from 1 on")
        self._left = int(times or 1)
        self._stored = self._delivered = False  #: since the last ack

    def reach(self, window: str) -> None:
        """Pass *window*; the last passing ends the process as ``kill -9`` would."""
        if self._is_last(window):
            os.kill(os.getpid(), signal.SIGKILL)

    async def reach_on_the_wire(self, window: str) -> None:
        """Pass *window*, as :meth:`reach`; what was begun gets the time to be sent before that."""
        if self._is_last(window):
            await asyncio.sleep(WRITTEN_S)
            os.kill(os.getpid(), signal.SIGKILL)

    def stored(self) -> None:
        """The broker confirmed a publish."""
        self._stored = True

    def delivered(self) -> None:
        """An endpoint answered with success."""
        self._delivered = True

    def reach_ack(self) -> None:
        """Pass the window before an ack: of a confirm, of a delivery, or of neither.

        Jobs run side by side. The ack may be another job's than the confirm; then that job, too, is killed
        after its confirm and before its ack.
        """
        stored, delivered = self._stored, self._delivered
        self._stored = self._delivered = False
        if stored:
            self.reach("after-confirm-before-ack")
        elif delivered:
            self.reach("after-2xx-before-ack")

    def _is_last(self, window: str) -> bool:
        if window != self.window:
            return False
        self._left -= 1
        return self._left == 0


@dataclass(frozen=True, slots=True)
class FailingPublisher:
    """A publisher with the windows around a publish. Implements :class:`consumer.ports.Publisher`."""

    publisher: Publisher
    failpoint: Failpoint

    async def publish(self, publication: Publication) -> None:
        """Publish; events for operators and for other workers have no windows."""
        if not publication.mandatory:
            await self.publisher.publish(publication)
            return
        self.failpoint.reach("before-publish")
        publishing = asyncio.ensure_future(self.publisher.publish(publication))
        await self.failpoint.reach_on_the_wire("after-publish-before-confirm")
        await publishing
        self.failpoint.stored()

    def pressed(self) -> str | None:
        """Say why no new attempt should start, or None."""
        return self.publisher.pressed()


@dataclass(frozen=True, slots=True)
class FailingSender:
    """A sender with the window of a request. Implements :class:`consumer.ports.Sender`."""

    sender: Sender
    failpoint: Failpoint

    async def send(self, request: SignedRequest) -> Outcome:
        """Send *request*."""
        sending = asyncio.ensure_future(self.sender.send(request))
        await self.failpoint.reach_on_the_wire("during-request")
        outcome = await sending
        if is_success(outcome):
            self.failpoint.delivered()
        return outcome

    async def close(self) -> None:
        """Close every connection."""
        await self.sender.close()


@dataclass(frozen=True, slots=True)
class FailingTicket:
    """A ticket with the windows before the ack. Implements :class:`consumer.ports.Ticket`."""

    ticket: Ticket
    failpoint: Failpoint

    async def ack(self) -> None:
        """Settle."""
        self.failpoint.reach_ack()
        await self.ticket.ack()

    def alive(self) -> bool:
        """Whether the message is still ours to bring to an end."""
        return self.ticket.alive()

    async def requeue(self) -> None:
        """Give it back unstarted."""
        await self.ticket.requeue()


@dataclass(frozen=True, slots=True)
class FailingListener:
    """The flow, behind the window after a message was taken.

    Implements :class:`consumer.ports.BrokerListener`. No worker dies of dead letters, or of messages that are
    moved to ``suspect`` unread: these pass no window.
    """

    listener: BrokerListener
    failpoint: Failpoint
    suspect_after: int  #: ``x-delivery-count`` from which a message is moved unread

    def deliver(self, source: Source, incoming: Incoming) -> None:
        """Take a message."""
        message = incoming.message
        is_moved = message.delivery_count >= self.suspect_after and source is not Source.SUSPECT
        if source not in (Source.OVERFLOW, Source.EXPIRED) and not is_moved:
            self.failpoint.reach("after-take")
            incoming = Incoming(message, FailingTicket(incoming.ticket, self.failpoint))
        self.listener.deliver(source, incoming)

    def reopened(self) -> None:
        """A channel was lost."""
        self.listener.reopened()

    def relieved(self) -> None:
        """The broker takes publishes again."""
        self.listener.relieved()

    def connected(self) -> None:
        """The topology is declared."""
        self.listener.connected()

    def listening(self) -> None:
        """This worker hears every control message."""
        self.listener.listening()

    def control(self, body: bytes) -> None:
        """Take a control message."""
        self.listener.control(body)
