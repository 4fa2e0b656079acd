"""Judge the machine: state folder, file handles, clock and certificates.

Data flow: numbers of the system, times of other machines, ends of certificates -> findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.text.durations import format_duration
from consumer.core.text.rfc3339 import from_ms
from consumer.core.tools.doctor.finding import Check, Finding, fault, note, warning, well

DISK_WARN_BYTES: Final = 1024**3
DISK_FAULT_BYTES: Final = 100 * 1024**2
CLOCK_WARN_S: Final = 5.0
CLOCK_FAULT_S: Final = 30.0
"""A tenth of the five minutes after which receivers refuse a webhook: this clock runs without NTP.

Source: Standard Webhooks 1.0.0.
"""
SOON_S: Final = 14 * 86_400.0
"""Time before the end of a certificate from which a warning is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeState:
    """The state folder."""

    path: str
    is_there: bool
    is_writable: bool = False
    is_open_to_others: bool = False  #: whether other users of the machine may read or write it
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The clock of another machine at one moment."""

    of: str
    theirs: float  #: Unix seconds
    ours: float  #: Unix seconds at the same moment
    error_s: float  #: the reading may be off by this much, in either direction
    is_foreign: bool = False  #: of a stranger's machine, whose own clock may be the wrong one


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The validity of one certificate."""

    place: str  #: such as ``[sending] ca_file`` or ``acme/shop tls.certificate``
    subject: str
    begins: float  #: Unix seconds
    ends: float  #: Unix seconds


def home_findings(home: HomeState) -> Iterator[Finding]:
    """Yield findings about the state folder."""
    if not home.is_there:
        text = "does not exist yet; the first start creates it"
        yield note(Check.HOME, home.path, text, "set LEVERET_HOME if another folder is meant")
        return
    if not home.is_writable:
        yield fault(Check.HOME, home.path, "cannot be written", "make it writable for this user")
    if home.is_open_to_others:
        text = "other users of this machine may read it, and it contains keys"
        yield warning(Check.HOME, home.path, text, "chmod 700 the folder")
    if home.free_bytes < DISK_FAULT_BYTES:
        text = f"its disk has only {home.free_bytes:,} free bytes"
        yield fault(Check.HOME, home.path, text, "free disk space")
    elif home.free_bytes < DISK_WARN_BYTES:
        text = f"its disk has only {home.free_bytes:,} free bytes"
        yield warning(Check.HOME, home.path, text, "free disk space")


def own_handle_findings(limit: int, *, concurrency: int, reserved: int) -> Iterator[Finding]:
    """Yield one finding about the open files of a worker on this machine.

    Args:
        limit: Files that a worker may have open, after it has raised its limit.
        concurrency: Requests in flight of one worker; each needs a connection.
        reserved: Handles that sending leaves to the rest of the process.
    """
    needed = concurrency + reserved
    subject = "a worker on this machine"
    if limit < needed:
        text = f"may open {limit} files, and [sending] concurrency = {concurrency} needs {needed}"
        yield fault(
            Check.HANDLES, subject, text, f"raise the hard limit (LimitNOFILE, ulimit -Hn) to {2 * needed}"
        )
    else:
        yield well(Check.HANDLES, subject, f"may open {limit} files, and needs {needed}")


def clock_findings(readings: Sequence[ClockReading]) -> Iterator[Finding]:
    """Yield one finding for each clock that differs, or one if none does; a stranger's is only a warning."""
    if not readings:
        text = "could not be compared: no management API, PostgreSQL or endpoint answered with its time"
        yield note(Check.CLOCK, "the clock", text, "set [amqp] management_url")
        return
    differing = []
    for reading in readings:
        off_s = reading.ours - reading.theirs
        sure_s = max(0.0, abs(off_s) - reading.error_s)
        if sure_s >= CLOCK_WARN_S:
            word = "ahead of" if off_s > 0 else "behind"
            text = f"is {format_duration(round(abs(off_s)))} {word} the clock of {reading.of}"
            make = fault if sure_s >= CLOCK_FAULT_S and not reading.is_foreign else warning
            remedy = "set the clocks by NTP (timedatectl, chronyc tracking); receivers refuse old timestamps"
            differing.append(make(Check.CLOCK, "the clock of this machine", text, remedy))
    yield from differing
    if not differing:
        of = ", ".join(reading.of for reading in readings)
        yield well(Check.CLOCK, "the clock of this machine", f"agrees with that of {of}")


def certificate_findings(
    certificates: Sequence[Validity], now: float, remedy: str, *, needed: bool = False
) -> Iterator[Finding]:
    """Yield findings about certificates of ours that are not valid now, or end soon.

    A bundle of several authorities fails only if none of them is valid.

    Args:
        certificates: Those of one place.
        now: Unix seconds.
        remedy: Advice about one that ends.
        needed: Whether each of them has to be valid.
    """
    valid = [each for each in certificates if each.begins <= now < each.ends]
    make = warning if valid and not needed else fault
    for each in certificates:
        subject = f"{each.place}: {each.subject}"
        if now >= each.ends:
            yield make(Check.TLS, subject, f"ended at {_time(each.ends)}", remedy)
        elif now < each.begins:
            yield make(Check.TLS, subject, f"is not valid before {_time(each.begins)}", remedy)
        elif each.ends - now < SOON_S:
            yield warning(Check.TLS, subject, f"ends at {_time(each.ends)}", remedy)


def _time(at: float) -> str:
    return from_ms(int(at * 1000))
