"""Judge the broker: login, version, alarms, handles and rights.

Data flow: answers over AMQP and of the management API -> findings. The comparison of queues, bindings and
policies with the plan belongs to ``topology.check``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.tools.doctor.finding import Check, Finding, fault, note, warning, well

OLDEST: Final = (3, 10)
"""First version whose quorum queues have a TTL and at-least-once dead-lettering."""
TRIED: Final = ((3, 10), (4, 0))
"""Versions that the tests run on."""
STRICT_PASSIVE: Final = ((4, 2, 6), (4, 3, 0))
"""Versions in which a passive declaration needs the configure right."""
HANDLES_NEAR: Final = 0.8
"""Share of a node's file handles in use from which a warning is due."""
NEAR_LIMIT: Final = 0.9
"""Share of the memory limit in use from which a warning is due; the broker blocks publishers at 1."""
DISK_NEAR: Final = 1.5
"""Free disk, as a multiple of the broker's limit, below which a warning is due."""

_URL = "correct the user and the password in LEVERET_AMQP_URL"
_REFUSALS: Final[Sequence[tuple[str, str]]] = (
    (r"ACCESS_REFUSED", f"{_URL}; `rabbitmqctl authenticate_user` tries them"),
    (r"vhost .*not found", "correct the virtual host in LEVERET_AMQP_URL, or run `rabbitmqctl add_vhost`"),
    (r"access to vhost", "give the user rights there: `leveret topology permissions` prints them"),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "name the broker's authority in [amqp] ca_file, or renew the broker's certificate",
    ),
    (r"WRONG_VERSION_NUMBER|SSL", "use amqps:// only for a port with TLS, or correct [amqp] cert_file"),
    (
        r"Name or service not known|name resolution|getaddrinfo|nodename",
        "correct the host in LEVERET_AMQP_URL, or the name servers of this machine",
    ),
    (
        r"sent nothing|open-file limit",
        "look at the node with `rabbitmqctl status`; raise its open-file limit (LimitNOFILE)",
    ),
)
_AWAY: Final = "start the broker, or correct host and port in LEVERET_AMQP_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node, as the management API reports it; None where it reports nothing."""

    name: str
    running: bool = True
    memory_alarm: bool = False
    disk_alarm: bool = False
    files_used: int | None = None
    files_limit: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_limit_bytes: int | None = None
    partitions: Sequence[str] = ()  #: nodes that it does not see


def login_fault(url: str, text: str, *, others_answer: bool) -> Finding:
    """Return the finding for a broker that refused a connection.

    Args:
        url: Its URL without a password.
        text: The reason, in the broker's or the system's words.
        others_answer: Whether another broker of the list answers, so that this one is only missed.
    """
    remedy = next((remedy for pattern, remedy in _REFUSALS if re.search(pattern, text)), _AWAY)
    make = warning if others_answer else fault
    return make(Check.LOGIN, url, text, remedy)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``3.10.8`` or ``4.3.0-rc.1``; empty if it has none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return () if found is None else tuple(int(part) for part in found.groups(default="0"))


def version_findings(version: str, *, declares: bool) -> Iterator[Finding]:
    """Yield one finding about the server's version.

    Args:
        version: As the server names itself.
        declares: Whether the worker declares the topology itself.
    """
    subject, numbers = f"RabbitMQ {version or 'of an unknown version'}", numbers_of(version)
    if not numbers:
        yield note(Check.VERSION, subject, "names no version that can be read")
    elif numbers[:2] < OLDEST:
        text = "quorum queues have neither TTL nor at-least-once dead-lettering"
        yield fault(Check.VERSION, subject, text, "upgrade to RabbitMQ 3.10 or later")
    elif numbers in STRICT_PASSIVE and not declares:
        text = "a passive declaration needs the configure right in this release alone"
        yield fault(Check.VERSION, subject, text, "take another patch release, or grant the configure right")
    elif numbers[:2] not in TRIED:
        text = "Leveret's tests run on 3.10 and 4.0 only"
        yield warning(Check.VERSION, subject, text, 'read "Versions" in docs/brokers.md')
    else:
        yield well(Check.VERSION, subject, "is a version that the tests run on")


def node_findings(nodes: Sequence[NodeState]) -> Iterator[Finding]:
    """Yield alarms, nodes that are away or partitioned, and nodes near a limit."""
    for node in nodes:
        subject = f"node {node.name}"
        if not node.running:
            yield fault(Check.ALARMS, subject, "does not run", "start it, or remove it from the cluster")
        if node.partitions:
            text = f"does not see {', '.join(node.partitions)}: the cluster is partitioned"
            yield fault(Check.ALARMS, subject, text, "restart the nodes of the smaller part")
        yield from _memory_findings(node, subject)
        yield from _disk_findings(node, subject)
        yield from _handle_findings(node, subject)


def _memory_findings(node: NodeState, subject: str) -> Iterator[Finding]:
    if node.memory_alarm:
        text = "its memory alarm is raised: the broker takes no publish"
        yield fault(Check.ALARMS, subject, text, "free memory, or raise vm_memory_high_watermark")
    elif node.memory_bytes and node.memory_limit_bytes:
        share = node.memory_bytes / node.memory_limit_bytes
        if share > NEAR_LIMIT:
            text = f"uses {share:.0%} of the memory at which it takes no publish"
            yield warning(Check.ALARMS, subject, text, "free memory, or raise vm_memory_high_watermark")


def _disk_findings(node: NodeState, subject: str) -> Iterator[Finding]:
    if node.disk_alarm:
        text = "its disk alarm is raised: the broker takes no publish"
        yield fault(Check.ALARMS, subject, text, "free disk on the node, or lower disk_free_limit")
        return
    free, limit = node.disk_free_bytes, node.disk_limit_bytes
    if free is not None and limit and free < DISK_NEAR * limit:
        text = f"has {free:,} bytes of free disk, and takes no publish below {limit:,}"
        yield warning(Check.ALARMS, subject, text, "free disk on the node")


def _handle_findings(node: NodeState, subject: str) -> Iterator[Finding]:
    if node.files_used is None or not node.files_limit:
        return
    share = node.files_used / node.files_limit
    if share > HANDLES_NEAR:
        text = f"has {node.files_used} of {node.files_limit} file handles in use"
        yield warning(Check.HANDLES, subject, text, "raise its open-file limit (LimitNOFILE, ulimit -n)")


def blocked() -> Finding:
    """Return the finding for a broker that stopped to read a connection which publishes."""
    return fault(
        Check.ALARMS,
        "the broker",
        "blocks connections that publish: a memory or disk alarm is raised",
        "look at `rabbitmqctl status` (alarms); free memory or disk on the node",
    )


def rights_findings(missing: Sequence[str], user: str, *, checked: int) -> Iterator[Finding]:
    """Yield one finding about the rights of the user.

    Args:
        missing: The refused rights, such as ``write to leveret.wait``.
        user: Name of the user.
        checked: Number of the rights that were tried.
    """
    subject = f"user {user}"
    listed = f"{', '.join(missing[:3])}{f' and {len(missing) - 3} more' if len(missing) > 3 else ''}"
    if missing:
        remedy = "grant the rights that `leveret topology permissions` prints"
        yield fault(Check.RIGHTS, subject, f"may not {listed}", remedy)
    else:
        yield well(Check.RIGHTS, subject, f"has all {checked} rights that were tried")
