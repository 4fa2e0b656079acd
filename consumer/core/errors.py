"""The error tree. What a stranger's server does is an Outcome, never one of these.

LeveretError
├── ConfigError        a setting, file or argument is wrong: names the field and the remedy
├── BadEvent           an event cannot be delivered as it stands: parked with this reason
├── BadSignature       a received webhook does not verify (our own receiving tools only)
├── TopologyMismatch   the broker holds a queue or exchange that differs from the plan
├── StoreUnavailable   the store cannot be read or written now: names where it is, the fault and the remedy
│   └── StoreGone      it was there, and is deleted or emptied: nothing of it is an empty store
└── BrokerUnavailable  the broker cannot take or give messages now
    ├── Unroutable     a mandatory publish found no queue
    └── Refused        the broker said nack (a full queue under reject-publish)
"""

from __future__ import annotations


class LeveretError(Exception):
    """Base of every error that Leveret raises on purpose."""


class ConfigError(LeveretError):
    """A setting, file or argument is wrong; the text names the field, the fault and the remedy."""


class BadEvent(LeveretError):
    """An event cannot be delivered as it stands.

    Attributes:
        reason: One of the closed set of park reasons, such as ``malformed``; safe as a metric label.
        detail: What exactly is wrong, for the operator.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class BadSignature(LeveretError):
    """A received webhook does not verify; raised for our own receiving tools only."""


class TopologyMismatch(LeveretError):
    """The broker holds a queue or exchange that differs from the plan; names it and the argument."""


class StoreUnavailable(LeveretError):
    """The store cannot be read or written now; nothing was written. Delivery goes on from memory."""


class StoreGone(StoreUnavailable):
    """The store was there and is deleted, emptied or moved away; delivery goes on from memory."""


class BrokerUnavailable(LeveretError):
    """The broker cannot take or give messages now; nothing was confirmed."""


class Unroutable(BrokerUnavailable):
    """A mandatory publish came back: no queue is bound for its routing key."""


class Refused(BrokerUnavailable):
    """The broker answered nack, as a full queue with ``reject-publish`` does."""
