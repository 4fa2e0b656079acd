"""Errors of the API as problem documents that name the field and the remedy.

Data flow: :class:`Problem`, or an error of Leveret or of a library -> :func:`problem_of` -> JSON.

Source: RFC 9457.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from consumer.core.errors import BrokerUnavailable, ConfigError, StoreUnavailable
from consumer.core.schema import dotted
from consumer.core.text.printable import printable

MEDIA_TYPE: Final = "application/problem+json"
RETRY_S: Final = 5  #: seconds after which a client may ask again while store or broker are away
_FIELD: Final = re.compile(r"[A-Za-z_][\w-]*(\[\d+\]|\.[\w-]+)*")
_BODY_PLACES: Final = ("body", "query", "path", "header", "cookie")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request."""

    detail: str
    field: str | None = None  #: dotted, such as ``retry.policy``; None: the whole request
    remedy: str | None = None


class Problem(Exception):
    """The answer to a request that cannot be done."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe it.

        Args:
            status: HTTP status.
            detail: The fault, in one sentence; the client sees it.
            field: The field or parameter with the fault.
            remedy: What the client can do.
            headers: Further headers of the answer.
        """
        super().__init__(detail)
        self.status = status
        self.faults: Sequence[Fault] = (Fault(detail, field, remedy),)
        self.headers = dict(headers or {})

    @classmethod
    def of_faults(
        cls, status: int, faults: Sequence[Fault], headers: Mapping[str, str] | None = None
    ) -> Problem:
        """Return a problem with several faults; the first one is its detail."""
        first = faults[0]
        problem = cls(status, first.detail, field=first.field, remedy=first.remedy, headers=headers)
        problem.faults = faults
        return problem


AnswerProblem = Callable[[Scope, Problem], Response]
"""Returns the answer to a request that failed: a problem document, or a page."""


class FaultDocument(BaseModel):
    """One fault of a request."""

    detail: str
    field: str | None
    remedy: str | None


class ProblemDocument(BaseModel):
    """Why a request was not done. Source: RFC 9457."""

    type: str
    """Kind of the problem, such as `urn:leveret:problem:not-found`."""
    title: str
    status: int
    detail: str
    field: str | None
    """Field or parameter with the fault, dotted."""
    remedy: str | None
    """What the client can do."""
    errors: list[FaultDocument]
    """Every fault; the first one is also in detail, field and remedy."""
    request_id: str | None = None
    """The id of the request in the log of Leveret."""


def respond(problem: Problem, request_id: str | None = None) -> Response:
    """Return the answer that describes *problem*."""
    return Response(
        document(problem, request_id), problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


def document(problem: Problem, request_id: str | None = None) -> bytes:
    """Return the problem document as JSON."""
    title = HTTPStatus(problem.status).phrase
    faults = [
        {"detail": printable(fault.detail), "field": fault.field, "remedy": fault.remedy}
        for fault in problem.faults
    ]
    kind = re.sub(r"[^a-z0-9]+", "-", title.lower())
    head = {"type": f"urn:leveret:problem:{kind}", "title": title, "status": problem.status}
    return orjson.dumps({**head, **faults[0], "errors": faults, "request_id": request_id})


def problem_of(error: Exception) -> Problem | None:
    """Return the problem of an expected error; None for a fault of Leveret itself."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, HTTPException):
        return _of_http(error)
    if isinstance(error, ConfigError):
        return Problem.of_faults(422, faults_of(error))
    if isinstance(error, StoreUnavailable):
        return _away("the store")
    if isinstance(error, BrokerUnavailable):
        return _away("the broker")
    return None


def faults_of(error: ConfigError) -> Sequence[Fault]:
    """Return the faults that the lines of an error name: ``field: fault; remedy``."""
    return [_fault_of(line) for line in str(error).splitlines()] or [Fault("is not valid")]


def _fault_of(line: str) -> Fault:
    key, found, rest = line.partition(": ")
    field, text = (key, rest) if found and _FIELD.fullmatch(key) else (None, line)
    detail, found, remedy = text.rpartition("; ")
    return Fault(detail, field, remedy) if found else Fault(text, field)


def _away(what: str) -> Problem:
    return Problem(
        503,
        f"{what} is away; nothing was changed",
        remedy="try again; the log of Leveret names the cause",
        headers={"Retry-After": str(RETRY_S)},
    )


def _of_validation(error: RequestValidationError) -> Problem:
    faults = []
    for each in error.errors():
        if each["type"] == "json_invalid":
            return Problem(400, "the body is not valid JSON", remedy="send one JSON object")
        place = tuple(each["loc"])
        inner = place[1:] if place and place[0] in _BODY_PLACES else place
        faults.append(Fault(str(each["msg"]), dotted(inner) or None, "see /v1/openapi.json"))
    return Problem.of_faults(422, faults or [Fault("the request is not valid")])


def _of_http(error: HTTPException) -> Problem:
    details = {
        404: ("there is nothing at this path", "see /v1/openapi.json"),
        405: ("this path has no such method", "the header Allow lists the methods"),
    }
    detail, remedy = details.get(error.status_code, (str(error.detail), None))
    return Problem(error.status_code, detail, remedy=remedy, headers=dict(error.headers or {}))
