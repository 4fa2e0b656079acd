"""Kill this process in a chosen window, for crash tests only.

The windows are around calls of the ports. So each port has a wrapper here, which exists only with
``LEVERET_FAILPOINT``.
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
"""Windows in which crash tests kill the daemon."""

WRITTEN_S = 0.02  #: delay before the kill, so that a started write has left the process


class Failpoint:
    """Kills the process at the n-th pass of a named window."""

    def __init__(self, text: str) -> None:
        """Parse ``<window>`` or ``<window>:<n>``.

        Raises:
            ConfigError: the window does not exist, or n is not a positive number.
        """
        self.window, _, times = text.partition(":")
        if self.window not in FAILPOINTS:
            raise ConfigError(f"failpoint: {self.window!r} is not one of {', '.join(FAILPOINTS)}")
        if times and (not times.isdecimal() or int(times) < 1):
            raise ConfigError(f"failpoint: {times!r} is not a number of at least 1")
        self._left = int(times or 1)
        self._stored = self._delivered = False  #: whether a confirm, or a success, came since the last ack

    def reach(self, window: str) -> None:
        """Pass *window*; the n-th pass ends the process as ``kill -9`` would."""
        if self._is_last(window):
            os.kill(os.getpid(), signal.SIGKILL)

    async def reach_on_the_wire(self, window: str) -> None:
        """Pass *window* as :meth:`reach` does, but leave a started write time to be sent."""
        if self._is_last(window):
            await asyncio.sleep(WRITTEN_S)
            os.kill(os.getpid(), signal.SIGKILL)

    def stored(self) -> None:
        """Note a confirm of the broker."""
        self._stored = True

    def delivered(self) -> None:
        """Note a success of an endpoint."""
        self._delivered = True

    def reach_ack(self) -> None:
        """Pass the window before an ack: after a confirm, after a delivery, or neither.

        Jobs run side by side. The ack may belong to another job than the confirm; then that job, too, is
        killed after its confirm and before its ack.
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
        """Publish; messages that are not mandatory have no windows."""
        if not publication.mandatory:
            await self.publisher.publish(publication)
            return
        self.failpoint.reach("before-publish")
        publishing = asyncio.ensure_future(self.publisher.publish(publication))
        await self.failpoint.reach_on_the_wire("after-publish-before-confirm")
        await publishing
        self.failpoint.stored()

    def pressed(self) -> str | None:
        """Return why no new attempt should start, or None."""
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
        """Settle the message."""
        self.failpoint.reach_ack()
        await self.ticket.ack()

    def alive(self) -> bool:
        """Return whether the message can still be settled by us."""
        return self.ticket.alive()

    async def requeue(self) -> None:
        """Give the message back, unstarted."""
        await self.ticket.requeue()

    async def reject(self) -> None:
        """Give the message back after a failure."""
        await self.ticket.reject()


@dataclass(frozen=True, slots=True)
class FailingListener:
    """The flow behind the window ``after-take``.

    Implements :class:`consumer.ports.BrokerListener`. Dead letters, and messages that are moved to
    ``suspect`` unread, cannot kill a worker, so they pass no window.
    """

    listener: BrokerListener
    failpoint: Failpoint
    suspect_after: int  #: ``x-delivery-count`` from which a message is moved unread

    def deliver(self, source: Source, incoming: Incoming) -> None:
        """Pass a message on."""
        message = incoming.message
        is_moved = message.delivery_count >= self.suspect_after and source is not Source.SUSPECT
        if source not in (Source.OVERFLOW, Source.EXPIRED) and not is_moved:
            self.failpoint.reach("after-take")
            incoming = Incoming(message, FailingTicket(incoming.ticket, self.failpoint))
        self.listener.deliver(source, incoming)

    def reopened(self) -> None:
        """Pass on that a channel was lost."""
        self.listener.reopened()

    def relieved(self) -> None:
        """Pass on that publishes are accepted again."""
        self.listener.relieved()

    def connected(self) -> None:
        """Pass on that the topology is declared."""
        self.listener.connected()

    def listening(self) -> None:
        """Pass on that this worker receives every control message."""
        self.listener.listening()

    def control(self, body: bytes) -> None:
        """Pass a control message on."""
        self.listener.control(body)
