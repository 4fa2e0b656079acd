"""How the real senders do without file handles, and how few of them they keep (fault 87)."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from consumer.core.access import TlsPolicy
from consumer.core.model import OutcomeKind
from consumer.edges.http.connect.tls import TlsContexts
from consumer.edges.http.handles import EXHAUSTED, Handles, reserved_of
from consumer.edges.http.outcomes import classify
from tests.support.loopback import OPTIONS, BuildSender, to
from tests.support.servers.certificates import Authority
from tests.support.servers.raw_server import RawServer, ok, says


def open_files() -> int:
    """Return the lowest number that a file could get now."""
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    return number


def limit_for(sockets: int) -> int:
    """Return a limit under which a sender may open so many sockets from now on."""
    return next(n for n in range(4, 1_000_000) if n - reserved_of(n) >= open_files() + sockets)


async def test_without_a_handle_nothing_is_spent(build: BuildSender) -> None:
    """The outcome blames this machine; the reserve stays for broker, store and health."""
    sender = build(replace(OPTIONS, handles=limit_for(0)))
    async with RawServer(says(ok())) as server:
        outcome = await sender.send(to(server.url()))
        connections = server.connections
    await sender.close()

    assert (outcome.kind, outcome.detail) == (OutcomeKind.LOCAL, "no file handle is left for sending")
    assert connections == 0


async def test_idle_connections_make_room(build: BuildSender) -> None:
    """Many healthy hosts never use all handles up: idle connections are closed before a request waits."""
    sender = build(replace(OPTIONS, handles=limit_for(30), keepalive_s=600.0))
    outcomes = []
    async with RawServer(says(ok())) as server:
        for number in range(1, 101):
            url = server.url().replace("127.0.0.1", f"127.0.2.{number}")
            outcomes.append((await sender.send(to(url))).kind)
    await sender.close()

    assert set(outcomes) <= {OutcomeKind.OK, OutcomeKind.REFUSED}
    assert OutcomeKind.LOCAL not in outcomes


@pytest.mark.parametrize("number", sorted(EXHAUSTED))
def test_shortages_of_this_machine_are_its_own_fault(number: int) -> None:
    """Wherever in an attempt it shows: while a certificate is read, a body is written, a token is fetched."""
    assert classify(OSError(number, os.strerror(number)))[0] is OutcomeKind.LOCAL
    assert classify(MemoryError())[0] is OutcomeKind.LOCAL


def test_sockets_beyond_the_share_of_sending_are_refused() -> None:
    """Every owner of idle connections closes them first."""
    asked: list[bool] = []
    handles = Handles(limit_for(0))
    handles.relieve.append(lambda: asked.append(True))

    with pytest.raises(OSError, match="no file handle") as refused:
        handles.open_socket(2, 1, 0)

    assert (refused.value.errno, asked) == (errno.EMFILE, [True])


async def test_contexts_of_policies_are_bounded_in_every_cache(authority: Authority) -> None:
    """Many endpoints with a policy each: the oldest context is forgotten, and its owner is notified."""
    contexts = TlsContexts(None)
    forgotten: list[TlsPolicy] = []
    contexts.evicted.append(forgotten.append)
    pem = authority.pem
    policies = [TlsPolicy(ca=pem + "\n" * number) for number in range(260)]

    for policy in policies:
        await contexts.of(policy)

    assert forgotten == policies[:4]
