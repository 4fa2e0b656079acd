"""Refuse the character NUL in each text of a request: PostgreSQL stores no text with it.

Data flow: request -> :func:`refuse_nul`, before its route -> 422 with the field, or the route.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

import orjson
from fastapi import Request

from consumer.core.schema import dotted
from consumer.web.shared.problems import Problem

NUL: Final = "\0"
PAYLOAD: Final = ("data",)
"""Place of the data of an event, whose bytes are used unchanged and are no text of ours."""
_FORM: Final = "application/x-www-form-urlencoded"


async def refuse_nul(request: Request) -> None:
    """Check path, query and body of a request.

    Raises:
        Problem: 422 names the field.
    """
    pairs = [*request.path_params.items(), *request.query_params.multi_items()]
    body = await request.body()
    if request.headers.get("content-type", "").startswith(_FORM):
        pairs += parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True) if b"%00" in body else []
    elif b"\\u0000" in body and (place := _place_of_nul(orjson.loads(body))) is not None:
        raise _problem(dotted(place))
    for name, value in pairs:
        if NUL in name or NUL in str(value):
            raise _problem(name)


def _place_of_nul(document: object) -> tuple[str | int, ...] | None:
    """Return the place of a text with NUL in a JSON document, outside of the data of an event."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while waiting:
        place, value = waiting.pop()
        if place == PAYLOAD:
            continue
        if isinstance(value, str) and NUL in value:
            return place
        if isinstance(value, dict):
            if any(NUL in name for name in value):
                return place
            waiting += [((*place, name), each) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, index), each) for index, each in enumerate(value)]
    return None


def _problem(field: str) -> Problem:
    name = field.replace(NUL, "") or None
    return Problem(422, "contains the character NUL", field=name, remedy="remove it")
