"""Let a command with many options take one frozen dataclass instead of many parameters.

Data flow: dataclass fields, ``Annotated`` as for typer -> a function with that signature -> typer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")


def options_of(kind: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Return a decorator: typer sees each field of the dataclass *kind* as a parameter of the command.

    Args:
        kind: Its fields are ``Annotated`` with ``typer.Argument`` or ``typer.Option``, in the order of help.
    """
    hints = get_type_hints(kind, include_extras=True)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # a TypeVar cannot be bound to dataclasses
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields
    ]

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(**values: Any) -> None:
            command(kind(**values))

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect reads
        call.__annotations__ = hints
        return call

    return decorate
