"""Compute when a delivery message is due and when its time is over, although clocks may be set meanwhile.

Data flow: delivery message, Unix seconds -> :func:`rest_s` -> next rung, hold or request; :func:`served`
counts the part of the wait that rungs and worker have served.

Setting a clock does not change a rung's TTL: a message that comes back from a rung has waited for at least
that long. So no wait lasts longer than it was chosen, even where the clock was set back, or differs from the
clock of the worker that chose it. A jump forward looks like a late message: each delivery that was to be sent
before its deadline gets one more try.

Source: fault 82; docs/adr/0011-waits-survive-clock-steps.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from consumer.core.message.delivery import DeliveryMessage


def rest_s(message: DeliveryMessage, now: float) -> float:
    """Return the seconds until the delivery may be sent, at most 0 when it is due; *now* is Unix seconds."""
    return min(message.not_before - now, message.wait_s - message.served_s)


def waited_s(message: DeliveryMessage, began: float) -> float:
    """Return the seconds between the delivery's last attempt and the one that *began* then (Unix seconds)."""
    if not message.attempts:
        return 0.0
    last = message.attempts[-1]
    return max(0.0, began - last.at - last.duration_s)


def served(message: DeliveryMessage, by_s: float) -> DeliveryMessage:
    """Return the message with *by_s* more seconds of its wait served, by a rung or in hand."""
    return replace(message, served_s=message.served_s + by_s)


def off_rung(message: DeliveryMessage, rung_s: float) -> DeliveryMessage:
    """Return a message that left a rung early, without the rung's time: its served part is unknown."""
    return replace(message, served_s=max(message.served_s - rung_s, 0.0))


def late_s(message: DeliveryMessage, deadlines: Iterable[float], now: float) -> float:
    """Return the extension of the deadline, in seconds, for a message that comes later than it was due.

    A delivery that was due before its deadline, and comes after it, gets the time that it had left: enough
    for one try, also where a breaker holds it at first. A delivery that was deferred to its deadline gets
    none.

    Args:
        message: As it came.
        deadlines: Of its targets, :attr:`DeliveryMessage.late_s` included; Unix seconds.
        now: Unix seconds.
    """
    chosen = max(message.not_before, message.event.arrived_at)
    if any(chosen < deadline <= now for deadline in deadlines):
        return message.late_s + now - chosen
    return message.late_s
