"""Take the rights of root from a block of a test."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_rights() -> Iterator[None]:
    """Be somebody whom the rights of files stop, also where the tests run as root."""
    if os.getuid() != 0:
        yield
        return
    nobody = pwd.getpwnam("nobody")
    os.setegid(nobody.pw_gid)
    os.seteuid(nobody.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
