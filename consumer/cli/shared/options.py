"""Declare the options of a command as the fields of a dataclass.

Data flow: dataclass of options -> (takes) a function with one parameter per field -> typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Wrap a function of one dataclass so that typer sees a parameter for each field.

    Annotate each field as typer expects for a parameter. Our functions stay within five parameters.
    """

    def wrap(function: Callable[[Options], None]) -> Callable[..., None]:
        hints = get_type_hints(options, include_extras=True)

        def command(**values: Any) -> None:
            function(options(**values))

        command.__name__ = function.__name__
        command.__doc__ = function.__doc__
        command.__annotations__ = {each.name: hints[each.name] for each in fields(options)}  # type: ignore[arg-type]  # checked by dataclasses
        parameters = [_parameter(each, hints[each.name]) for each in fields(options)]  # type: ignore[arg-type]  # checked by dataclasses
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks there
        return command

    return wrap


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def examples(*commands: str) -> str:
    """Return the last section of a command's help: one example per line."""
    return "\n\n".join(("Examples:", *commands))
