"""Check endpoint URLs, bring them into one normal form, and shorten them for display.

Data flow: text from a subscriptions file -> parse_url -> Url -> Subscription.url; show_url -> lists and logs.
The addresses behind a host name are judged elsewhere: see :mod:`consumer.core.endpoint.egress`.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass

import idna

URL_MAX = 2_048
"""Longest URL in characters."""

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?//([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_REST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
"""Source: RFC 3986, 3.3 and 3.4: pchar, "/" and "?"."""

_SHOWN = re.compile(
    r"(?P<scheme>[\x00-\x20]*(?:[A-Za-z][A-Za-z0-9+.-]*:[/\\]*|[/\\]{2,})?)"  # all text before the host
    r"(?:(?<=[:/\\])[^/\\?#]*@)?(?P<host>[^/\\?#]*)(?P<path>[^?#]*)",
    re.DOTALL,
)
"""A URL or reference as browsers read it: a backslash is a slash. Source: WHATWG URL, "URL parsing"."""

_DEFAULT_PORTS = {"http": 80, "https": 443}

_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})
_LATIN_LIKE = frozenset("асԁеһіјӏорԛѕԝхуъьҽпгѵѡ")
"""Cyrillic letters that look like Latin ones. Source: Chromium, "IDN in Google Chrome"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """An endpoint URL in its normal form."""

    text: str  #: lower-case scheme and host, host in ASCII, no default port, path at least ``/``
    scheme: str  #: ``http`` or ``https``
    host: str  #: ASCII; an IPv6 address has no brackets
    port: int  #: 1 to 65535


def parse_url(text: str) -> Url:
    """Check *text* and bring it into its normal form.

    Raises:
        ValueError: *text* is not a URL that a webhook may go to. The error names the fault and the remedy. It
            never repeats the URL, which may contain a token.

    Source: RFC 3986; RFC 5891 (internationalised names); fault 26.
    """
    if len(text) > URL_MAX:
        raise ValueError(f"is longer than {URL_MAX} characters; shorten it")
    if _FORBIDDEN.search(text):
        raise ValueError("contains a space, a control character or a backslash; percent-encode or remove it")
    match = _PARTS.fullmatch(text)
    if match is None or match[1] is None:
        raise ValueError("must be an absolute URL, such as https://hooks.example.com/path")
    scheme, authority, path, query, fragment = match.groups(default="")
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise ValueError("must begin with https:// (or http:// where the settings allow it)")
    if fragment:
        raise ValueError("has a #fragment, which is never sent; remove it")
    if "@" in authority:
        raise ValueError("contains a user name or password; put credentials into a header or the path")
    if not _REST.fullmatch(path + query):
        raise ValueError("has characters in path or query that a URL cannot contain; percent-encode them")
    host, port = _parse_authority(authority, _DEFAULT_PORTS[scheme])
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    normal = f"{scheme}://{shown_host}{shown_port}{path or '/'}{query}"
    return Url(text=normal, scheme=scheme, host=host, port=port)


def show_url(text: str) -> str:
    """Return *text* without user name, password, query and fragment, for lists and logs.

    *text* may be any reference: the target of a redirect is shown this way too, with or without a host.
    """
    match = _SHOWN.match(text)
    return "" if match is None else match["scheme"] + match["host"] + match["path"]


def _parse_authority(authority: str, default_port: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("has a host or port that cannot be read; write HOST or HOST:PORT")
    host, port_text = match.groups(default="")
    if not host:
        raise ValueError("has no host; write https://HOST/path")
    port = int(port_text[:6]) if port_text else default_port
    if not 1 <= port <= 65_535:
        raise ValueError("has a port outside 1 to 65535")
    return (_address_v6(host[1:-1]) if host.startswith("[") else _host_name(host)), port


def _address_v6(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError  # noqa: TRY301 - a zone is the name of an interface of this machine
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError("has brackets around text that is not a plain IPv6 address") from None


def _host_name(host: str) -> str:
    name = host.removesuffix(".")
    labels = [_label(label) for label in name.lower().split(".")]
    ascii_name = ".".join(labels)
    if len(ascii_name) > 253:
        raise ValueError("has a host name longer than 253 characters")
    return ascii_name + host[len(name) :]


def _label(label: str) -> str:
    """Return one label of a host name in ASCII."""
    if label.isascii() and not label.startswith("xn--"):
        if not _LABEL.fullmatch(label):
            raise ValueError("has an unusable host name; write 1 to 63 letters, digits, - and _ per label")
        return label
    try:
        encoded = idna.alabel(label).decode("ascii")
        readable = idna.ulabel(encoded)
    except (idna.IDNAError, UnicodeError):
        raise ValueError("has an international host name that is not valid") from None
    if not label.isascii() and _misleads(readable):
        raise ValueError("has a host name that imitates another one; write its xn-- form if you mean it")
    return encoded


def _misleads(label: str) -> bool:
    """Return whether *label* mixes look-alike scripts, or is Cyrillic that looks like Latin."""
    letters = [letter for letter in label if letter.isalpha()]
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in letters} & _SCRIPTS
    return len(scripts) > 1 or (scripts == {"CYRILLIC"} and set(letters) <= _LATIN_LIKE)
