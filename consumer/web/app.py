"""Build the ASGI app: middleware, routes, errors, and the OpenAPI document.

Data flow: WebContext -> :func:`create_app` -> FastAPI -> :mod:`consumer.web.server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from consumer.core.errors import LeveretError
from consumer.core.text.hosts import is_loopback
from consumer.web.access.logins import Logins
from consumer.web.access.sessions import Sessions
from consumer.web.context import WebContext
from consumer.web.pages_routes.parts.answers import answer_problem
from consumer.web.pages_routes.site import PAGE_ROUTERS
from consumer.web.routes import (
    daemon,
    endpoints,
    events,
    health,
    jobs,
    parked,
    policies,
    publish,
    steering,
    subscriptions,
    tenants,
    webhook,
)
from consumer.web.routes.bulk import holds
from consumer.web.routes.bulk import subscriptions as bulk_subscriptions
from consumer.web.shared.bodies import Bodies
from consumer.web.shared.boundary import Boundary, BoundaryOptions
from consumer.web.shared.nul import refuse_nul
from consumer.web.shared.problems import MEDIA_TYPE, Problem, ProblemDocument, problem_of

ROUTERS: Final = (
    health.router,
    tenants.router,
    subscriptions.router,
    bulk_subscriptions.router,
    steering.router,
    endpoints.router,
    holds.router,
    policies.router,
    publish.router,
    webhook.router,
    events.router,
    parked.router,
    jobs.router,
    daemon.router,
)
"""Every resource; a new one is added here."""

_PROBLEM: Final = {"$ref": "#/components/schemas/ProblemDocument"}
_DEFAULT: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "A problem: it names the fault, the field and the remedy.",
        "content": {MEDIA_TYPE: {"schema": _PROBLEM}},
    }
}


def create_app(context: WebContext) -> FastAPI:
    """Return the app that serves *context*; it has no state of its own but limits and remembered tokens."""
    api = context.settings.api
    host, _ = api.place()
    options = BoundaryOptions(
        check_host=is_loopback(host) and not api.behind_proxy and not api.uses_tls,
        is_https=api.uses_tls,
        behind_proxy=api.behind_proxy,
    )
    logins = Logins(context.store.records.tokens, api, context.clock, context.log)
    sessions = Sessions(context.store.records.sessions, api, context.clock)
    shared = {"context": context, "logins": logins, "sessions": sessions}
    app = FastAPI(
        title="Leveret",
        version=version("leveret"),
        description="Manage webhooks that Leveret delivers from RabbitMQ.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # these pages load scripts from another site
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        redirect_slashes=False,
        dependencies=[Depends(refuse_nul)],
        responses=_DEFAULT,
        generate_unique_id_function=_operation_id,
        lifespan=_lifespan(logins),
        middleware=[
            Middleware(Boundary, options=options, log=context.log, answer=answer_problem, shared=shared),
            Middleware(Bodies, max_bytes=api.max_body_bytes, answer=answer_problem),
        ],
    )
    for router in (*ROUTERS, *PAGE_ROUTERS):
        app.include_router(router)
    for kind in (Problem, RequestValidationError, HTTPException, LeveretError):
        app.add_exception_handler(kind, _on_error)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # as FastAPI's documents say
    return app


def _lifespan(logins: Logins) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return the task beside the app, which writes when tokens were used."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        keeping = asyncio.create_task(logins.keep_used(), name="api tokens")
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    return lifespan


async def _on_error(request: Request, error: Exception) -> Response:
    """Answer an expected error with a problem document, or with a page.

    Raises:
        Exception: *error*, if it is a fault of Leveret; the boundary logs it and answers 500.
    """
    problem = problem_of(error)
    if problem is None:
        raise error
    return answer_problem(request.scope, problem)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the schema of problems."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        template = "#/components/schemas/{model}"
        problem = ProblemDocument.model_json_schema(ref_template=template)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(problem.pop("$defs", {}))
        schemas["ProblemDocument"] = problem
        app.openapi_schema = document
    return app.openapi_schema
