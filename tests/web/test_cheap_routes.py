"""A route costs little: FastAPI runs a plain function in a thread, which costs more than most routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from consumer.web.app import PAGE_ROUTERS, ROUTERS


def called(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """Yield the function of a route, and those that it depends on."""
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from called(each)


def test_no_route_takes_a_thread() -> None:
    """A route and everything that it depends on are coroutines."""
    routes = [each for router in (*ROUTERS, *PAGE_ROUTERS) for each in router.routes]
    functions = {each for route in routes if isinstance(route, APIRoute) for each in called(route.dependant)}

    assert len(functions) > len(routes)
    for function in functions:
        assert iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__), function
