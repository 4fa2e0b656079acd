"""The page of tokens, for administrators."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from consumer.core.errors import ConfigError
from consumer.core.event.decode import TENANT_PATTERN
from consumer.core.store.tokens import NAME_MAX, Scope, Token
from consumer.core.text.durations import parse_duration
from consumer.web.access.visitors import Administrating, Visitor
from consumer.web.pages import urls
from consumer.web.pages.views.access import TokenForm, TokenLine, TokensPage
from consumer.web.pages.views.parts import Tone
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get(urls.TOKENS)
async def tokens_page(visitor: Administrating) -> Response:
    """List every token, without the secrets."""
    return page_answer(await _page(visitor))


@router.post(urls.TOKENS)
async def make_token(visitor: Administrating) -> Response:
    """Make a token and show its text, this once; the answer is never stored."""
    form = _form(visitor.form)
    try:
        expires = _expires(form, visitor.context.clock.now())
        _check(form)
    except Problem as problem:
        first = problem.faults[0]
        refused = TokenForm(
            name=form.name,
            scope=form.scope,
            tenant=form.tenant,
            expires=form.expires,
            error=first.detail,
            refused=first.field or "",
        )
        return page_answer(await _page(visitor, form=refused), problem.status)
    _, text = await visitor.context.store.records.tokens.create(
        form.name, Scope(form.scope), tenant=form.tenant or None, expires=expires, who=visitor.caller.who
    )
    return page_answer(await _page(visitor, made=text))


@router.post(f"{urls.TOKENS}/{{token_id}}/revoke")
async def revoke_token(token_id: str, request: Request, visitor: Administrating) -> Response:
    """End a token for good, with every session of it."""
    found, is_changed = await visitor.context.store.records.tokens.revoke(token_id, visitor.caller.who)
    if found is None:
        raise Problem(404, "there is no such token")
    request.state.logins.forget(token_id)
    if is_changed:
        visitor.note(f"The token {found.name} is revoked.")
    else:
        visitor.note(f"The token {found.name} was revoked before.", Tone.WARN)
    return see_other(urls.TOKENS)


async def _page(visitor: Visitor, *, made: str = "", form: TokenForm | None = None) -> TokensPage:
    own = visitor.session.token_id
    found = await visitor.context.store.records.tokens.all()
    return TokensPage(
        shell=shell_of(visitor),
        lines=[_line(token, own) for token in found],
        made=made,
        form=TokenForm() if form is None else form,
    )


def _line(token: Token, own: str) -> TokenLine:
    return TokenLine(
        id=token.id,
        name=token.name,
        scope=token.scope.value,
        created=token.created,
        tenant=token.tenant or "",
        expires=token.expires,
        last_used=token.last_used,
        revoked=token.revoked,
        is_own=token.id == own,
    )


def _form(sent: Mapping[str, str]) -> TokenForm:
    fields = {name: sent.get(name, "").strip() for name in ("name", "scope", "tenant", "expires")}
    return TokenForm(**fields)


def _check(form: TokenForm) -> None:
    """Check the fields of a new token.

    Raises:
        Problem: 422.
    """
    if not form.name or not form.name.isprintable() or len(form.name) > NAME_MAX:
        raise Problem(422, f"must be 1 to {NAME_MAX} printable characters", field="name")
    if form.scope not in list(Scope):
        raise Problem(422, "choose read, operate or admin", field="scope")
    if form.tenant and not TENANT_PATTERN.fullmatch(form.tenant):
        raise Problem(422, "is not a tenant; use letters, digits and _.:@-", field="tenant")


def _expires(form: TokenForm, now: float) -> float | None:
    """Return the end of a new token in Unix seconds; None: it does not end.

    Raises:
        Problem: 422.
    """
    try:
        return now + parse_duration(form.expires) if form.expires else None
    except ConfigError as error:
        raise Problem(422, str(error), field="expires") from None
