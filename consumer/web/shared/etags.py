"""Entity tags, and the preconditions that a request makes with them.

Source: RFC 9110, 8.8.3 and 13.1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Final

import orjson

from consumer.core.changes.merge import StoredEntry
from consumer.web.shared.problems import Problem

_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


def etag_of(entry: StoredEntry) -> str:
    """Return the entity tag of a subscription: it changes with each field, and with each secret.

    The hash covers passwords, which may be short. It is keyed with a signing secret of 192 bits or more, so
    that nobody can try passwords against it.
    """
    secrets = entry.secret_texts()
    content = orjson.dumps(entry.document(), option=orjson.OPT_SORT_KEYS)
    key = (secrets[0] if secrets else "").encode()
    return f'"{hmac.new(key, content, hashlib.sha256).hexdigest()[:24]}"'


def etag_of_all(entries: Iterable[StoredEntry]) -> str:
    """Return the entity tag of several subscriptions: it changes with each of theirs, in any order."""
    tags = "".join(sorted(f"{entry.id}{etag_of(entry)}" for entry in entries))
    return f'"{hashlib.sha256(tags.encode()).hexdigest()[:24]}"'


def matches(header: str, etag: str) -> bool:
    """Return whether a header ``If-Match`` or ``If-None-Match`` names *etag*, or any by ``*``."""
    return header.strip() == "*" or etag.strip('"') in _TAG.findall(header)


def require_match(if_match: str | None, etag: str) -> None:
    """Check the precondition of a change.

    Raises:
        Problem: 412: somebody changed the object since the client read it.
    """
    if if_match is not None and not matches(if_match, etag):
        raise Problem(
            412,
            "it was changed since you read it",
            field="If-Match",
            remedy="read it again, and repeat the change with its new ETag",
        )
