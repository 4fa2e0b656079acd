"""The error tree. A fault of a remote server is an Outcome, never one of these errors.

LeveretError
├── ConfigError        a setting, file or argument is wrong: names the field and the remedy
├── BadEvent           an event cannot be delivered: it is parked with this reason
├── BadSignature       a received webhook does not verify (our own receiving tools only)
├── TopologyMismatch   a queue or exchange of the broker differs from the plan
├── StoreUnavailable   the store cannot be read or written now: names its place, the fault and the remedy
│   └── StoreGone      the store was deleted or emptied; it must not be taken for an empty store
├── FrameTooLarge      the headers of a message do not fit into one AMQP frame
└── BrokerUnavailable  the broker cannot take or give messages now
    ├── Unroutable     a mandatory publish found no queue
    └── Refused        the broker answered nack (a full queue under reject-publish)
"""

from __future__ import annotations


class LeveretError(Exception):
    """Base of every error that Leveret raises on purpose."""


class ConfigError(LeveretError):
    """A setting, file or argument is wrong; the text names the field, the fault and the remedy."""


class BadEvent(LeveretError):
    """An event cannot be delivered.

    Attributes:
        reason: One of the closed set of park reasons, such as ``malformed``; safe as a metric label.
        detail: The exact fault, for the operator.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class BadSignature(LeveretError):
    """A received webhook does not verify; raised for our own receiving tools only."""


class TopologyMismatch(LeveretError):
    """A queue or exchange of the broker differs from the plan; the text names it and the argument."""


class StoreUnavailable(LeveretError):
    """The store cannot be read or written now; nothing was written. Delivery continues from memory."""


class StoreGone(StoreUnavailable):
    """The store existed and was deleted, emptied or moved away; delivery continues from memory."""


class FrameTooLarge(LeveretError):
    """The properties and headers of a message do not fit into one AMQP frame; nothing was written.

    Attributes:
        excess_bytes: By how many bytes the frame is longer than the connection's ``frame_max``.
    """

    def __init__(self, excess_bytes: int, frame_max: int) -> None:
        super().__init__(
            f"its headers need a frame of {frame_max + excess_bytes} bytes, and the broker takes frames of "
            f"{frame_max} (frame_max)"
        )
        self.excess_bytes = excess_bytes


class BrokerUnavailable(LeveretError):
    """The broker cannot take or give messages now; it confirmed nothing."""


class Unroutable(BrokerUnavailable):
    """A mandatory publish came back: no queue is bound for its routing key."""


class Refused(BrokerUnavailable):
    """The broker answered nack, as a full queue with ``reject-publish`` does."""
