"""The visitor of a page: the session of a browser, checked as the token of an API request is.

A route takes a parameter of the type :data:`Looker`, :data:`Operating` or :data:`Administrating` for pages of
operators, or :data:`Customer` or :data:`OperatingCustomer` for the view of one tenant. A POST also needs the
hidden field of a form of this session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from consumer.core.store.tokens import Scope
from consumer.web.access.cookies import SESSION, is_own_form, read_cookie
from consumer.web.access.guard import Caller
from consumer.web.access.logins import Logins, unauthorized
from consumer.web.access.sessions import Session, Sessions
from consumer.web.context import WebContext
from consumer.web.pages import urls
from consumer.web.pages.views.parts import Flash, Tone
from consumer.web.shared.problems import Problem

FIELDS_MAX: Final = 50  #: fields of a form


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at a page, or sends a form."""

    caller: Caller
    session: Session
    form: Mapping[str, str] = field(default_factory=dict)  #: fields of a POST

    @property
    def context(self) -> WebContext:
        """Return the context of the app."""
        return self.caller.context

    def note(self, text: str, tone: Tone = Tone.GOOD) -> None:
        """Show a sentence on the next page."""
        self.session.note(Flash(text=text, tone=tone))


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form as our pages send it; the last one of a name counts.

    No other form is read: the client of ``multipart/form-data`` chooses the character set, and some of them
    take minutes for one MB.

    Raises:
        Problem: 400: it has too many fields.
    """
    text = (await request.body()).decode("ascii", "replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise Problem(400, f"the form has more than {FIELDS_MAX} fields") from None


def require_own_origin(request: Request) -> None:
    """Refuse a form of another site.

    Raises:
        Problem: 403.
    """
    if not is_own_form(request):
        raise Problem(403, "the form is of another site", field="Origin", remedy="send the form of our page")


async def visitor_of(request: Request) -> Visitor:
    """Return the visitor of a request; a POST must be a form of its session.

    Raises:
        Problem: 401: nobody is logged in; 403: the form is of another site or session; 429.
        StoreUnavailable: the session or the token cannot be read.
    """
    state = request.state
    sessions: Sessions = state.sessions
    logins: Logins = state.logins
    cookie = read_cookie(request, SESSION)
    session = await sessions.find(cookie) if cookie else None
    token = None if session is None else await logins.resume(session.token_id)
    if session is None or token is None:
        raise unauthorized("nobody is logged in")
    caller = Caller(token=token, context=state.context)
    visitor = Visitor(caller=caller, session=session)
    request.scope["state"]["who"] = caller.who
    request.scope["state"]["visitor"] = visitor
    if request.method != "POST":
        return visitor
    require_own_origin(request)
    form = await read_form(request)
    if not session.is_form_of(form.get("csrf", "")):
        raise Problem(
            403, "the form is not of this session", field="csrf", remedy="open the page again, and repeat it"
        )
    return Visitor(caller=caller, session=session, form=form)


def admit(scope: Scope, *, customer: bool = False) -> Callable[..., Awaitable[Visitor]]:
    """Return a dependency that admits visitors with the rights of *scope*.

    Args:
        scope: Needed rights.
        customer: Admit only a visitor with a tenant-bound token; False: only one without a tenant.
    """

    async def guard(request: Request) -> Visitor:
        visitor = await visitor_of(request)
        token = visitor.caller.token
        if (token.tenant is not None) is not customer:
            raise Problem(404, "there is nothing at this path", remedy=f"go to {home_of(visitor)}")
        if not token.scope.includes(scope):
            detail = f"this needs the scope {scope.value}, and your token has {token.scope.value}"
            raise Problem(403, detail, remedy="log in with a token that has this scope")
        return visitor

    return guard


def home_of(visitor: Visitor) -> str:
    """Return the first page of a visitor."""
    return urls.OVERVIEW if visitor.caller.tenant is None else urls.CUSTOMER


AnyVisitor = Annotated[Visitor, Depends(visitor_of)]
"""Whoever is logged in."""
Looker = Annotated[Visitor, Depends(admit(Scope.READ))]
Operating = Annotated[Visitor, Depends(admit(Scope.OPERATE))]
Administrating = Annotated[Visitor, Depends(admit(Scope.ADMIN))]
Customer = Annotated[Visitor, Depends(admit(Scope.READ, customer=True))]
OperatingCustomer = Annotated[Visitor, Depends(admit(Scope.OPERATE, customer=True))]
