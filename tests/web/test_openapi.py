"""The routes: they are cheap, and their OpenAPI document is checked in and complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from consumer.web.app import ROUTERS
from consumer.web.pages_routes.site import PAGE_ROUTERS
from docs import generate
from tests.support.web import Api


def test_the_document_is_current() -> None:
    """`python -m docs.generate` writes it."""
    assert generate.OPENAPI.read_text() == generate.openapi_text(), "run `.venv/bin/python -m docs.generate`"


async def test_the_api_serves_its_document_and_no_foreign_page(api: Api) -> None:
    """There are no pages that load scripts from another site."""
    async with api.client() as client:
        document = (await client.get("/v1/openapi.json")).json()
        for path in ("/docs", "/redoc"):
            assert (await client.get(path)).status_code == 404

    assert document["openapi"].startswith("3.1")
    assert "ProblemDocument" in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "default" in operation["responses"], (method, path)
            assert operation["operationId"]
            assert operation.get("description"), (method, path)


def called(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """Yield the function of a route, and those that it depends on."""
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from called(each)


def test_no_route_takes_a_thread() -> None:
    """A route and all that it depends on are coroutines: FastAPI runs a plain function in a thread."""
    routes = [each for router in (*ROUTERS, *PAGE_ROUTERS) for each in router.routes]
    functions = {each for route in routes if isinstance(route, APIRoute) for each in called(route.dependant)}

    assert len(functions) > len(routes)
    for function in functions:
        assert iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__), function
