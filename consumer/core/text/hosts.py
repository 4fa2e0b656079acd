"""Read and show ``HOST:PORT``, and judge whether a host is this machine alone."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::\d{1,5})?")
"""Source: RFC 9110, 7.2: ``uri-host [ ":" port ]``."""


def split_place(text: str) -> tuple[str, int] | None:
    """Return the host, without brackets, and the port of ``HOST:PORT``; None for any other text."""
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > 65_535:
        return None
    return match[1].strip("[]"), int(match[2])


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the URL of a place that listens; one that listens on every address is shown on this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{scheme}://{host}:{port}"
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"{scheme}://{address}:{port}" if address.version == 4 else f"{scheme}://[{address}]:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address; of all names only ``localhost`` counts."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this_machine(host_header: str) -> bool:
    """Return whether the header ``Host`` of a request names this machine.

    A page of another site in a browser can point its own name to a loopback address (DNS rebinding) and read
    the answer. The ``Host`` of such a request is that name.
    """
    named = _HOST.fullmatch(host_header)
    return named is not None and is_loopback(named[1].strip("[]").removesuffix("."))
