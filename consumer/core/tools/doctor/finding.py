"""Define one finding of `leveret doctor`, and join equal ones.

Data flow: facts -> judgements of this package -> :class:`Finding` -> one printed line each, and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from consumer.core.text.printable import printable

NAMES_SHOWN: Final = 3  #: subjects that a joined finding names, at most
TEXT_MAX: Final = 400  #: characters of one part of a line, as remote servers choose some of the texts


class Level(StrEnum):
    """The severity of a finding."""

    FAULT = "fault"  #: deliveries cannot be made, or some would be lost; exit code 1
    WARNING = "warning"  #: it works now, or only the owner of one endpoint can mend it
    NOTE = "note"  #: a part was not checked
    OK = "ok"


class Check(StrEnum):
    """The areas that are checked, in the order of the lines; a closed set."""

    SETTINGS = "settings"
    HOME = "home"
    HANDLES = "handles"  #: open files, of this machine and of the broker's nodes
    LOGIN = "login"
    VERSION = "version"
    ALARMS = "alarms"
    RIGHTS = "rights"
    PLUGIN = "plugin"
    POLICIES = "policies"
    TOPOLOGY = "topology"
    STORE = "store"
    KEYS = "keys"
    CLOCK = "clock"
    DNS = "dns"
    EGRESS = "egress"
    TLS = "tls"
    ENDPOINTS = "endpoints"
    SUBSCRIPTIONS = "subscriptions"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check of one subject."""

    level: Level
    check: Check
    subject: str  #: such as ``queue leveret.parked`` or ``hooks.example.com:443``
    text: str  #: the state that was found
    remedy: str = ""  #: empty if there is nothing to do

    def as_dict(self) -> Mapping[str, str]:
        """Return the fields of the JSON line, each printable."""
        return {
            "level": self.level.value,
            "check": self.check.value,
            "subject": shown(self.subject),
            "text": shown(self.text),
            "remedy": shown(self.remedy),
        }


def shown(text: str) -> str:
    """Return *text* on one line, printable and of bounded length."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= TEXT_MAX else f"{line[: TEXT_MAX - 1]}…"


def fault(check: Check, subject: str, text: str, remedy: str) -> Finding:
    """Return a finding that fails the examination."""
    return Finding(level=Level.FAULT, check=check, subject=subject, text=text, remedy=remedy)


def warning(check: Check, subject: str, text: str, remedy: str) -> Finding:
    """Return a finding that does not fail the examination."""
    return Finding(level=Level.WARNING, check=check, subject=subject, text=text, remedy=remedy)


def note(check: Check, subject: str, text: str, remedy: str = "") -> Finding:
    """Return a finding about a part that was not checked."""
    return Finding(level=Level.NOTE, check=check, subject=subject, text=text, remedy=remedy)


def well(check: Check, subject: str, text: str) -> Finding:
    """Return a finding about a part that is well."""
    return Finding(level=Level.OK, check=check, subject=subject, text=text)


def names(subjects: Sequence[str]) -> str:
    """Return the first names and the number of the others: ``a, b, c and 12 more``."""
    more = len(subjects) - NAMES_SHOWN
    listed = ", ".join(subjects[:NAMES_SHOWN])
    return f"{listed} and {more} more" if more > 0 else listed


def joined(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Join findings that differ only in their subject, in the order of the checks; equal ones become one."""
    groups: dict[tuple[Check, Level, str, str], list[str]] = {}
    for each in findings:
        subjects = groups.setdefault((each.check, each.level, each.text, each.remedy), [])
        if each.subject not in subjects:
            subjects.append(each.subject)
    order = {check: number for number, check in enumerate(Check)}
    return [
        Finding(level=level, check=check, subject=names(subjects), text=text, remedy=remedy)
        for (check, level, text, remedy), subjects in sorted(
            groups.items(), key=lambda item: order[item[0][0]]
        )
    ]


def has_fault(findings: Iterable[Finding]) -> bool:
    """Return whether the examination fails."""
    return any(each.level is Level.FAULT for each in findings)


def summary(findings: Sequence[Finding]) -> str:
    """Return the number of lines of each level: ``1 fault, 2 warnings, 14 ok``."""
    counts = {level: sum(each.level is level for each in findings) for level in Level}
    parts = [
        f"{count} {level}{'s' if count != 1 and level is not Level.OK else ''}"
        for level, count in counts.items()
        if count
    ]
    return ", ".join(parts)


def of_error(check: Check, subject: str, text: str) -> Finding:
    """Return a fault for the text of an error of Leveret, which ends with its remedy."""
    found, separator, remedy = text.rpartition("; ")
    return fault(check, subject, found, remedy) if separator else fault(check, subject, text, "")
