"""A user of the test's virtual host whose rights the test chooses."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from topology.permissions import Permissions


@dataclass(frozen=True, slots=True)
class LimitedUser:
    """A user without rights yet, and how it connects."""

    management: httpx2.Client
    name: str
    vhost: str
    url: str

    def grant(self, rights: Permissions) -> None:
        """Give exactly these patterns."""
        path = f"/api/permissions/{self.vhost}/{self.name}"
        body = {"configure": rights.configure, "write": rights.write, "read": rights.read}
        self.management.put(path, json=body).raise_for_status()


@contextmanager
def limited_user(management: httpx2.Client, vhost: str) -> Iterator[LimitedUser]:
    """Give a user without the tag that the management API asks for; it is gone after the block.

    Args:
        management: The management API.
        vhost: AMQP URL of the virtual host.
    """
    name, password = f"user-{secrets.token_hex(4)}", secrets.token_hex(8)
    management.put(f"/api/users/{name}", json={"password": password, "tags": ""}).raise_for_status()
    parts = urlsplit(vhost)
    url = f"amqp://{name}:{password}@{parts.hostname}:{parts.port}{parts.path}"
    try:
        yield LimitedUser(management, name, parts.path[1:], url)
    finally:
        management.delete(f"/api/users/{name}").raise_for_status()
