"""The rights that a RabbitMQ user needs: names + sources -> configure, write and read patterns.

RabbitMQ searches for a pattern anywhere in a name, so each pattern is anchored. The operations need these
rights: to declare needs configure; a dead-letter or alternate exchange needs write on it and read on the
object that names it; a binding needs write on its destination and read on its source; to publish needs write;
to consume needs read; a passive declaration needs no right, from RabbitMQ 4.3.1 on any one. Source: RabbitMQ
"Access Control", table of operations; release notes of 4.2.6 and 4.3.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from topology.plan import TopologySpec

NOTHING = "^$"
"""A pattern that matches only the name of the default exchange, which Leveret never uses."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """The three patterns, in the order in which ``rabbitmqctl set_permissions`` takes them."""

    configure: str
    write: str
    read: str


def permissions(spec: TopologySpec, *, declare: bool) -> Permissions:
    """Return the narrowest patterns under which a worker runs.

    Args:
        spec: Prefix and sources.
        declare: True for ``leveret run`` and ``topology apply``; False for ``run --no-declare``, which
            creates and binds nothing and only reads and writes.
    """
    prefix = re.escape(spec.prefix)
    ours = rf"{prefix}\..+"
    if declare:
        sources = sorted({re.escape(source.exchange) for source in spec.sources})
        return Permissions(_any(ours), _any(ours), _any(ours, *sources))
    names = spec.names
    publishes = (names.events, names.wait, names.due, names.dlx, names.control, names.ops, names.store)
    rungs = rf"{prefix}\.wait\..+"
    consumes = rf"{prefix}\.(lane|due|spill|inbox|dedicated)\..+"
    ends = (
        names.replay,
        names.suspect,
        names.parked,
        names.overflow,
        names.expired,
        names.stray,
        names.store,
    )
    # To look whether a queue or exchange exists needs a right on it: write on a queue allows less than read,
    # and read on an exchange allows less than write.
    looked_at = (names.guard, names.route, names.lanes, *sorted(source.exchange for source in spec.sources))
    return Permissions(
        configure=NOTHING,
        write=_any(*map(re.escape, publishes), rungs),
        read=_any(consumes, *map(re.escape, (*ends, *looked_at))),
    )


def _any(*patterns: str) -> str:
    return f"^({'|'.join(dict.fromkeys(patterns))})$"
