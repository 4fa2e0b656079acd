"""The caller of a route: its token, its rights, and the one tenant that it may see.

A route takes a parameter of the type :data:`Reader`, :data:`Operator` or :data:`Admin`. If its path has a
``{tenant}``, the tenant of a bound token is checked there; a route without one asks :meth:`Caller.sees`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from consumer.core.store.tokens import Scope, Token
from consumer.web.access.logins import Logins, unauthorized
from consumer.web.context import Context, WebContext
from consumer.web.shared.problems import Problem

_BEARER = HTTPBearer(auto_error=False, description="A token of `leveret tokens create`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request."""

    token: Token
    context: WebContext

    @property
    def who(self) -> str:
        """The author for the audit log."""
        return f"token:{self.token.id}"

    @property
    def tenant(self) -> str | None:
        """The only tenant that the caller sees; None: every tenant."""
        return self.token.tenant

    def sees(self, tenant: str | None) -> bool:
        """Return whether the caller may see an object of *tenant*; None is an object of no single tenant."""
        return self.token.tenant in (None, tenant)


def require(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency that admits callers with the rights of *scope*, to the tenant in the path."""

    async def guard(
        request: Request,
        context: Context,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    ) -> Caller:
        if credentials is None:
            raise unauthorized("the request has no token")
        logins: Logins = request.state.logins
        token = await logins.login(credentials.credentials, request.state.address)
        caller = Caller(token=token, context=context)
        request.scope["state"]["who"] = caller.who
        if not token.scope.includes(scope):
            detail = f"this needs the scope {scope.value}, and the token has {token.scope.value}"
            raise Problem(403, detail, remedy="use a token with that scope")
        tenant = request.path_params.get("tenant")
        if tenant is not None and not caller.sees(tenant):
            raise Problem(404, "there is no such tenant", field="tenant")
        return caller

    return guard


Reader = Annotated[Caller, Depends(require(Scope.READ))]
Operator = Annotated[Caller, Depends(require(Scope.OPERATE))]
Admin = Annotated[Caller, Depends(require(Scope.ADMIN))]
