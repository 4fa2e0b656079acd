"""Define the pages of access: login, tokens, audit; and the page of an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from consumer.web.pages.views.parts import Page, Pager


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage(Page):
    """The page at ``/login``; the form sends ``token``, ``next`` and ``csrf``."""

    template: ClassVar[str] = "login.html"
    error: str = ""  #: why the login failed
    next: str = ""  #: path of the page to return to; the route checks that it is a local path

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Log in"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLine:
    """One token."""

    id: str
    name: str
    scope: str  #: read | operate | admin
    created: float
    tenant: str = ""
    expires: float | None = None
    last_used: float | None = None
    revoked: float | None = None
    is_own: bool = False  #: the token of this session

    def state(self, now: float) -> str:
        """Return active, revoked or expired; *now* is in Unix seconds."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenForm:
    """The form that makes a token, as it was sent."""

    name: str = ""
    scope: str = "read"
    tenant: str = ""
    expires: str = ""  #: a duration such as ``90d``
    error: str = ""
    refused: str = ""  #: name of the field that is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPage(Page):
    """The page at ``/tokens``."""

    template: ClassVar[str] = "tokens.html"
    section: ClassVar[str] = "tokens"
    lines: Sequence[TokenLine] = ()
    made: str = ""  #: text of the token that was made just now; shown this once
    form: TokenForm = field(default_factory=TokenForm)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that a change altered; empty: it was or is absent."""

    name: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One line of the audit log."""

    id: str
    at: float
    who: str  #: such as ``cli:root`` or ``token:night-shift``
    action: str  #: such as ``subscription.patched``
    target: str
    href: str = ""  #: page of the target; empty: it has none
    tenant: str = ""
    changes: Sequence[Change] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The fields of the filter form; empty: any."""

    who: str = ""
    action: str = ""
    tenant: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage(Page):
    """The page at ``/audit``."""

    template: ClassVar[str] = "audit.html"
    section: ClassVar[str] = "audit"
    lines: Sequence[AuditLine] = ()  #: newest first
    chosen: AuditFilter = field(default_factory=AuditFilter)
    pager: Pager = field(default_factory=Pager)

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return "Audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPage(Page):
    """The page of an error; its fields are those of the problem document."""

    template: ClassVar[str] = "error.html"
    status: int
    name: str  #: such as ``Not Found``
    detail: str = ""
    remedy: str = ""
    request_id: str = ""

    @property
    def title(self) -> str:
        """Return the title of the window."""
        return f"{self.status} {self.name}"
