"""The outcomes of system faults that a server on loopback cannot cause."""

from __future__ import annotations

import errno
import os
import ssl

import pytest

from consumer.core.model import OutcomeKind
from consumer.edges.http.connect.dial import unstarted
from consumer.edges.http.outcomes import classify

BROKE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT)
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)


def fault(code: int) -> OSError:
    """Return the error that the system raises for *code*."""
    return OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", [*BROKE, errno.ECONNRESET, errno.EPIPE])
def test_a_network_that_breaks_is_a_reset(code: int) -> None:
    """Fault 43: no route any more, or no acknowledgement: not our own side."""
    kind, text = classify(fault(code))

    assert (kind, os.strerror(code) in text) == (OutcomeKind.RESET, True)


@pytest.mark.parametrize("code", [*BROKE])
def test_a_network_that_breaks_in_the_handshake_is_a_reset(code: int) -> None:
    """Fault 43: the connection was open already."""
    assert unstarted(fault(code)).kind is OutcomeKind.RESET


@pytest.mark.parametrize("code", OURS)
def test_a_machine_that_has_run_out_says_so(code: int) -> None:
    """Fault 87: every shortage of this machine, at any time, is our own fault."""
    assert classify(fault(code))[0] is OutcomeKind.LOCAL
    assert unstarted(fault(code)).kind is OutcomeKind.LOCAL


def test_an_ended_handshake_is_tls() -> None:
    """Fault 44: an alert, a certificate, or a server that hangs up."""
    faults = (ssl.SSLError(1, "alert"), ssl.SSLCertVerificationError(1, "expired"), fault(errno.ECONNRESET))

    assert [unstarted(each).kind for each in faults] == [OutcomeKind.TLS] * 3
