"""Provide the keys that encrypt the secrets in the store.

Data flow: ``[store] key``, or a file -> KeyRing. The file is read at each use, so a restored one counts at
once. The default file is created at the first write, unless sealed secrets exist already: a new key would
open none of them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.store.sealing import KEY_BYTES, MAKE_ONE, KeyRing, format_key, parse_keys

FILE_NAME = "store.key"


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """Counts of subscriptions by the state of their secrets after a rekey."""

    current: int  #: already sealed with the first key
    rekeyed: int  #: sealed with it now
    locked: int  #: no key at hand opens their secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """A key of the store and its use."""

    id: str
    is_at_hand: bool  #: whether the settings or the key file contain it
    is_first: bool  #: whether it seals new secrets
    subscriptions: int  #: number of subscriptions whose secrets it seals


class Keys:
    """The keys of one store."""

    def __init__(self, home: Path, key: str | None, key_file: Path | None) -> None:
        """Bind to a source.

        Args:
            home: State folder, for the default file.
            key: Keys as text, or None.
            key_file: File chosen by the user, or None.
        """
        self._given = None if key is None else KeyRing(parse_keys(key))
        self._is_default = key is None and key_file is None
        self.path = home / FILE_NAME if key_file is None else key_file

    def fingerprint(self) -> Hashable:
        """Return a value that differs after each change of the file."""
        if self._given is not None:
            return None
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def ring(self) -> KeyRing:
        """Return the keys at hand; a ring without keys contains the reason."""
        if self._given is not None:
            return self._given
        try:
            return KeyRing(parse_keys(self.path.read_text(encoding="ascii")))
        except FileNotFoundError:
            return KeyRing(fault=f"{self.path}: the store's key is missing; restore it, or {MAKE_ONE}")
        except OSError as error:
            return KeyRing(fault=f"{self.path}: the store's key cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            return KeyRing(fault=f"{self.path}: the store's key is damaged; restore it from a backup")
        except ConfigError as error:
            return KeyRing(fault=f"{self.path}: {error}")

    def make(self) -> KeyRing:
        """Create the default key file if it does not exist, and return the keys.

        The file appears whole or not at all. The caller excludes others meanwhile.

        Raises:
            StoreUnavailable: the disk refuses the file.
        """
        if self._is_default and not self.path.exists():
            try:
                _write_whole(self.path, format_key(secrets.token_bytes(KEY_BYTES)) + "\n")
            except OSError as error:
                raise StoreUnavailable(
                    f"{self.path}: the store's key cannot be written: {error.strerror}; "
                    "make the folder writable, or set LEVERET_STORE__KEY_FILE"
                ) from error
        return self.ring()


def _write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all, and only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
