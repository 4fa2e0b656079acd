"""Define the mark of a check on a delivery message, and the message that consists only of such a mark.

Data flow: worker and number -> header -> broker -> any worker -> a report to the worker that set the mark.

A message of only a check has a format version that no worker can read as a delivery. A worker of an earlier
release therefore leaves it to a newer worker.
"""

from __future__ import annotations

from collections.abc import Mapping

CHECK = "leveret-check"  #: ``<worker>.<number>``
VERSION = "leveret-v"
ONLY_A_CHECK = "check"  #: the format version of a message that contains no delivery


def check_text(worker: str, number: int) -> str:
    """Return the value of the header for a worker's check."""
    return f"{worker}.{number}"


def check_number(text: str, worker: str) -> int | None:
    """Return the number of a check of *worker*; None for a check of another worker."""
    owner, _, number = text.rpartition(".")
    return int(number) if owner == worker and number.isascii() and number.isdecimal() else None


def check_of(headers: Mapping[str, object]) -> str | None:
    """Return the check on a message of ours; None without one."""
    value = headers.get(CHECK)
    return value if isinstance(value, str) else None


def check_headers(text: str) -> dict[str, object]:
    """Return the headers of a message of only a check."""
    return {VERSION: ONLY_A_CHECK, CHECK: text}


def unnumbered_check_headers() -> dict[str, object]:
    """Return the headers of a message of only a check that no worker reports: its confirm is the answer."""
    return {VERSION: ONLY_A_CHECK}


def is_only_check(headers: Mapping[str, object]) -> bool:
    """Return whether a message of ours contains no delivery."""
    return headers.get(VERSION) == ONLY_A_CHECK
