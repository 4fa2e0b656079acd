"""Keep subscriptions in one file of the state folder.

Data flow: leveret subscriptions apply -> FileStore.apply -> subscriptions.json -> changed() -> load() in the
daemon. The file holds secrets: mode 0600, in a folder of mode 0700. It is replaced as a whole, on disk before
the old one goes, so a reader never sees half of it, and writers stand in line behind a lock file.

No file means no subscriptions, unless there was one when it was last loaded. Reading needs no lock and no
right to write.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from consumer.core import schema
from consumer.core.errors import ConfigError
from consumer.core.signing import format_secret
from consumer.core.subscription import Subscription
from consumer.core.subscription_file import locate
from consumer.core.subscription_model import SubscriptionEntry, SubscriptionRules
from consumer.core.subscription_set import Merge, StoredEntry, merge

FILE_NAME = "subscriptions.json"
SECRET_BYTES = 32
"""Length of a generated secret. Source: SW-09 (24 to 64 bytes)."""

_VERSION = 1
_Signature = tuple[int, int, int]


def _make_secret() -> str:
    return format_secret(secrets.token_bytes(SECRET_BYTES))


class FileStore:
    """The subscriptions in ``LEVERET_HOME/subscriptions.json``. Implements :class:`consumer.ports.Store`.

    Args:
        home: State folder; made with mode 0700 at the first write.
        rules: What a subscription takes where its entry says nothing.
        make_secret: Returns a new ``whsec_`` secret.
        now: Unix seconds.
    """

    def __init__(
        self,
        home: Path,
        rules: SubscriptionRules,
        make_secret: Callable[[], str] = _make_secret,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = home / FILE_NAME
        self._rules = rules
        self._make_secret = make_secret
        self._now = now
        self._loaded: _Signature | None = None

    async def load(self) -> Sequence[Subscription]:
        """Return every subscription, enabled or not.

        Raises:
            ConfigError: the file is damaged, or names a policy that is gone; one line per problem.
            OSError: the file cannot be read.
        """
        return await asyncio.to_thread(self._load)

    async def disable(self, subscription_id: str, reason: str) -> None:
        """Set ``enabled: false`` and remember why. Unknown ids are ignored.

        Raises:
            ConfigError: the file is damaged; it is left as it is.
            OSError: the file cannot be written; it is left as it was.
        """
        await asyncio.to_thread(self._disable, subscription_id, reason)

    async def apply(
        self, wanted: Sequence[SubscriptionEntry], *, prune: bool = False, enable: bool = False
    ) -> Merge:
        """Bring *wanted* into the file and return what changed; without a change nothing is written.

        Args:
            wanted: Entries of a subscriptions file, checked.
            prune: Remove what *wanted* does not name.
            enable: Enable again what the daemon had disabled.

        Raises:
            ConfigError: the file is damaged, or an entry cannot stand beside one that stays.
            OSError: the file cannot be written; it is left as it was.
        """
        return await asyncio.to_thread(self._apply, wanted, prune=prune, enable=enable)

    def entries(self) -> Sequence[StoredEntry]:
        """Return the entries as they are kept, secrets included.

        Raises:
            ConfigError: the file is damaged.
            OSError: the file cannot be read.
        """
        return self._read()[0]

    def changed(self) -> bool:
        """Say whether the file is another one than at the last :meth:`load`; one ``stat`` call."""
        return self._look() != self._loaded

    def _load(self) -> Sequence[Subscription]:
        entries, signature = self._read()
        if signature is None and self._loaded is not None:
            raise ConfigError(f"{self.path}: has gone since it was last loaded; restore it, or apply again")
        self._loaded = signature
        subscriptions = []
        faults = []
        for entry in entries:
            try:
                subscriptions.append(entry.build(self._rules))
            except ConfigError as error:
                faults.append(f"{self.path}: {entry.tenant}/{entry.label}: {error}")
        if faults:
            raise ConfigError("\n".join(faults))
        return tuple(subscriptions)

    def _disable(self, subscription_id: str, reason: str) -> None:
        with self._locked():
            entries = list(self._read()[0])
            for index, entry in enumerate(entries):
                if entry.id == subscription_id and entry.enabled:
                    at = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                    notes = {"enabled": False, "disabled_reason": reason, "disabled_at": at}
                    entries[index] = entry.model_copy(update=notes)
                    self._write(entries)

    def _apply(self, wanted: Sequence[SubscriptionEntry], *, prune: bool, enable: bool) -> Merge:
        with self._locked():
            kept = self._read()[0]
            merged = merge(kept, wanted, self._make_secret, prune=prune, enable=enable)
            if merged.added or merged.changed or merged.removed:
                self._write(merged.entries)
            return merged

    def _look(self) -> _Signature | None:
        try:
            return _signature(os.stat(self.path))
        except OSError:
            return None

    def _read(self) -> tuple[Sequence[StoredEntry], _Signature | None]:
        try:
            with open(self.path, encoding="utf-8") as file:
                signature = _signature(os.fstat(file.fileno()))
                text = file.read()
        except FileNotFoundError:
            return (), None
        except UnicodeDecodeError:
            raise ConfigError(f"{self.path}:1: is not UTF-8 text; restore it or apply again") from None
        return parse_stored(text, str(self.path)), signature

    def _write(self, entries: Sequence[StoredEntry]) -> None:
        """Replace the file; what is on disk is the old one or the new one, whatever happens."""
        document = {"version": _VERSION, "subscriptions": [entry.document() for entry in entries]}
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        fresh = self.path.with_name(f"{FILE_NAME}.new")  # ours alone: the lock is held
        fresh.unlink(missing_ok=True)
        try:
            with open(
                os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink()
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other writers out, in this process and others; the lock ends with the process."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _signature(status: os.stat_result) -> _Signature:
    return status.st_mtime_ns, status.st_ino, status.st_size


def parse_stored(text: str, source: str) -> Sequence[StoredEntry]:
    """Read the kept file.

    Raises:
        ConfigError: it is damaged; names line and field of each problem.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise ConfigError(f"{source}:{line}: is not JSON; restore it, or remove it and apply again") from None
    if not isinstance(values, dict) or not isinstance(values.get("subscriptions"), list):
        raise ConfigError(f"{source}:1: must hold a list `subscriptions`; remove it and apply again")
    if values.get("version") != _VERSION:
        raise ConfigError(f"{source}:1: version: must be {_VERSION}; it was written by another release")
    entries = []
    faults: list[tuple[schema.Path, str]] = []
    for index, entry in enumerate(values["subscriptions"]):
        try:
            entries.append(StoredEntry.model_validate(entry))
        except ValidationError as error:
            for detail in error.errors():
                path: schema.Path = ("subscriptions", index, *detail["loc"])
                faults.append((path, schema.fault(StoredEntry, detail, "the subscriptions file in the docs")))
    if faults:
        raise ConfigError("\n".join(locate(text, source, faults)))
    return tuple(entries)
