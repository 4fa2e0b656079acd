"""Whether a token that is bound to one tenant reads anything of another: each route with each foreign id.

The routes come from the app, so a new one is asked as well. Each path parameter, and each text in the query,
takes each id of the other tenant in turn. An answer counts as a foreign read

* if a request with a foreign id in its path is answered with neither 404 nor 403, and
* if any answer contains a word of the other tenant that the request itself does not contain.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
from fastapi import FastAPI

from bench.operate.bodies import smallest_body
from bench.operate.ground import MARK, RIVAL, TENANT, Ground, laid_out
from bench.operate.places import API
from bench.operate.visitor import Visitor, visiting
from bench.prove import Bench, Goal, Measured, Proof
from consumer.settings import load_settings
from consumer.web.app import create_app
from consumer.web.context import open_context
from consumer.web.pages import urls
from tests.support.web import every_route

OPEN = frozenset({"/v1/health", "/v1/openapi.json"})
"""Routes that anybody may ask."""
REFUSED = frozenset({403, 404})
PAGE_QUERIES = ("q", "tenant", "subscription", "type", "reason", "group", "cursor", "before", "who", "id")
"""Names in the query of a page or in a form, tried on all of them."""
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

GOALS = (Goal(name="foreign_reads", text="0", unit="answers", n=100),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of the tenant ``rival``."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    names_foreign: bool = False  #: the path contains an id of the other tenant

    @property
    def text(self) -> str:
        """Everything that the request itself contains."""
        return f"{self.path} {' '.join(self.query.values())} {self.body}"


def paths(path: str, foreign: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield *path* with each foreign id in each place, and whether it has any.

    A tenant is the caller's own as well, so that an id is also tried below it.
    """
    names = PARAMETER.findall(path)
    choices = [(RIVAL, *foreign) if name == "tenant" else tuple(foreign) for name in names]
    for values in itertools.product(*choices):
        filled = path
        for value in values:
            filled = PARAMETER.sub(quote(value, safe=""), filled, count=1)
        yield filled, any(value != RIVAL for value in values)


def requests_of(app: FastAPI, ids: Sequence[str]) -> Iterator[Request]:
    """Yield every request: each route with each foreign id in its path and in its query."""
    document = app.openapi()
    for method, path in every_route(app):
        if path in OPEN or path in (urls.LOGIN, urls.LOGOUT):
            continue
        operation = document["paths"].get(path, {}).get(method.lower(), {})
        body = smallest_body(document, operation)
        for filled, is_foreign in paths(path, ids):
            yield Request(method=method, path=filled, body=body, names_foreign=is_foreign)
        own = PARAMETER.sub(RIVAL, path)
        for name in text_queries(operation):
            for value in ids:
                yield Request(method=method, path=own, query={name: value}, body=body)


def text_queries(operation: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the parameters in the query that may be a text."""
    if not operation:  # a page
        return PAGE_QUERIES
    found = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    return [each["name"] for each in found if '"string"' in repr(each["schema"]).replace("'", '"')]


def fault_of(request: Request, answer: httpx2.Response, words: Sequence[str]) -> str:
    """Return why *answer* is a foreign read; an empty text if it is not."""
    told = [word for word in words if word in answer.text and word not in request.text]
    if told:
        return f"the answer {answer.status_code} contains {told}"
    if request.names_foreign and answer.status_code not in REFUSED:
        return f"answered {answer.status_code}: {answer.text[:200]}"
    return ""


async def ask(client: httpx2.AsyncClient, visitor: Visitor, request: Request) -> httpx2.Response:
    """Send a request to the API with the token, or to a page with a session of the same token."""
    if API.match(request.path):
        body = {} if request.body is None else {"json": request.body}
        return await client.request(request.method, request.path, params=dict(request.query), **body)
    if request.method == "POST":
        return await visitor.send(request.path, request.query)
    return await visitor.get(request.path, request.query)


async def measure(bench: Bench, ground: Ground) -> Measured:
    """Ask every route with each foreign id; the foreign objects must be untouched afterwards.

    Raises:
        RuntimeError: an object of the other tenant has changed.
    """
    app = app_of(ground)
    ids = list(ground.ids.values())[: bench.count(len(ground.ids), 3)]
    words = [MARK, *(value for kind, value in ground.ids.items() if kind != "tenant")]
    token = await ground.api.token("--scope", "admin", "--tenant", RIVAL)
    found: list[str] = []
    count = 0
    before = await state_of(ground)
    async with ground.api.client(token) as client, visiting(ground.api, token) as visitor:
        for request in requests_of(app, ids):
            count += 1
            fault = fault_of(request, await ask(client, visitor, request), words)
            if fault:
                found.append(f"{request.method} {request.path} {dict(request.query)}: {fault}")
    if await state_of(ground) != before:
        raise RuntimeError("an object of the other tenant has changed")
    bench.note("foreign_routes", len(every_route(app)) - len(OPEN))
    bench.note("foreign_found", found[:50])
    return Measured(name="foreign_reads", value=len(found), n=count)


def app_of(ground: Ground) -> FastAPI:
    """Return the app as the served one is built, to read its routes; it connects to nothing."""
    return create_app(open_context(load_settings(environ=ground.api.daemon.env)))


async def state_of(ground: Ground) -> list[str]:
    """Return what the owner sees of its objects."""
    async with ground.api.client(ground.admin) as client:
        answer = await client.get(f"/v1/tenants/{TENANT}/subscriptions/{ground.ids['subscription']}")
    listing = await ground.api.daemon.cli("parked", "list", "--json")
    return [answer.text, listing]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Ask as the tenant ``rival``."""
    async with laid_out(bench) as ground:
        return [await measure(bench, ground)]


PROOF = Proof("operate_foreign", GOALS, prove)
