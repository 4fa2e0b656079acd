"""One line of the audit log: who changed which object, and the values before and after, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one object, to be written to the audit log."""

    action: str  #: such as ``subscription.added``: object and past participle
    target: str  #: name or id of the object, such as ``acme/shop``
    tenant: str | None = None  #: whose object it is; None: of no single tenant
    before: Mapping[str, object] = field(default_factory=dict)  #: fields that differ; no secrets
    after: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A change with its time and its author, as the audit log contains it."""

    id: str  #: ids ascend with time
    at: float  #: Unix seconds
    who: str  #: ``cli:<user of the operating system>`` or ``token:<id>``
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The lines that a reader wants; None: any."""

    tenant: str | None = None
    who: str | None = None
    action: str | None = None  #: ``subscription.added``, or ``subscription`` for all of its actions
    target: str | None = None
    since: float | None = None  #: Unix seconds
    before_id: str | None = None  #: only lines that are older than this one
