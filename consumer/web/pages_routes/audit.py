"""The page of the audit log, for administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from consumer.core.errors import ConfigError
from consumer.core.store import audit as core
from consumer.core.text.durations import parse_moment
from consumer.web.access.visitors import Administrating
from consumer.web.pages import urls
from consumer.web.pages.views.access import AuditFilter, AuditLine, AuditPage, Change
from consumer.web.pages.views.parts import Flash, Tone
from consumer.web.pages_routes.parts.answers import page_answer, shell_of
from consumer.web.pages_routes.parts.lists import not_empty, pager

router = APIRouter(include_in_schema=False)

LINES: Final = 100  #: of one page
_PAGES: Final = {"token": urls.TOKENS, "job": urls.JOBS}


async def _chosen(who: str = "", action: str = "", tenant: str = "", since: str = "") -> AuditFilter:
    return AuditFilter(who=who.strip(), action=action.strip(), tenant=tenant.strip(), since=since.strip())


@router.get(urls.AUDIT)
async def audit_page(
    visitor: Administrating,
    chosen: Annotated[AuditFilter, Depends(_chosen)],
    cursor: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show changes, newest first."""
    shell = shell_of(visitor)
    try:
        since = parse_moment(chosen.since, visitor.context.clock.now()) if chosen.since else None
    except ConfigError as error:
        refused = replace(shell, flash=Flash(text=f"Since: {error}", tone=Tone.BAD))
        return page_answer(AuditPage(shell=refused, chosen=chosen), 422)
    wanted = core.AuditFilter(
        who=chosen.who or None,
        action=chosen.action or None,
        tenant=chosen.tenant or None,
        since=since,
        before_id=cursor or None,
    )
    found = await visitor.context.store.records.audit.lines(wanted, LINES + 1)
    following = found[LINES - 1].id if len(found) > LINES else None
    return page_answer(
        AuditPage(
            shell=shell,
            lines=[_line(each) for each in found[:LINES]],
            chosen=chosen,
            pager=pager(urls.AUDIT, not_empty(asdict(chosen)), cursor, following),
        )
    )


def _line(line: core.AuditLine) -> AuditLine:
    change = line.change
    kind = change.action.partition(".")[0]
    return AuditLine(
        id=line.id,
        at=line.at,
        who=line.who,
        action=change.action,
        target=change.target,
        href=_PAGES.get(kind, ""),
        tenant=change.tenant or "",
        changes=_changes(change.before, change.after),
    )


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Sequence[Change]:
    names = dict.fromkeys([*before, *after])
    return [Change(name=name, before=_text(before.get(name)), after=_text(after.get(name))) for name in names]


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
