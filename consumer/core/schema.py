"""Find a field of a pydantic model by its path, and describe the values that it accepts.

Data flow: path ("sending", "timeout_s") -> FieldInfo -> "a number from 1 to 30, in seconds"; a validation
error -> one sentence with the fault and the remedy, without any secret.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from consumer.core.errors import ConfigError

_T = TypeVar("_T")
_R = TypeVar("_R")

Path = tuple[str | int, ...]

_UNITS = {"_s": "seconds", "_bytes": "bytes", "_ratio": "as a ratio"}
_NOUNS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class Section(BaseModel):
    """A frozen group of fields that refuses unknown keys.

    The text below a field is its description, once :func:`describe_fields` was called.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


def describe_fields(model: type[BaseModel]) -> None:
    """Make the text below each field of *model*, and of the sections inside it, the field's description.

    Only documents and JSON Schemas read descriptions. With pydantic's ``use_attribute_docstrings`` every
    command would parse the source of all models at its start, which costs 0.2 s of CPU time.
    """
    inner = [_inner(field.annotation)[0] for field in model.model_fields.values()]
    for section in filter(None, inner):
        describe_fields(section)
    texts = {name: text for each in reversed(model.__mro__) for name, text in _texts_below(each).items()}
    for name, field in model.model_fields.items():
        field.description = texts.get(name)
    model.model_rebuild(force=True)


def _texts_below(section: type) -> dict[str, str]:
    """Return the text below each field that *section* itself declares, by the field's name."""
    if not issubclass(section, BaseModel) or section in (BaseModel, Section):
        return {}
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    statements = declared.body if isinstance(declared, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in itertools.pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def dotted(path: Sequence[str | int]) -> str:
    """Write *path* as, for example, ``sources[0].exchange``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def set_at(values: dict[str, Any], place: str, value: object) -> None:
    """Set the value at *place*, such as ``auth.basic.password``, and create the tables that are missing."""
    *tables, last = place.split(".")
    for name in tables:
        values = values.setdefault(name, {})
    values[last] = value


def find_field(model: type[BaseModel], path: Path) -> FieldInfo | None:
    """Return the field at *path*, through lists and tables of sections; None if there is no such field."""
    if not path or not isinstance(path[-1], str):
        return None
    section, _ = _section_at(model, path[:-1])
    return section.model_fields.get(path[-1]) if section is not None else None


def _section_at(model: type[BaseModel], path: Path) -> tuple[type[BaseModel] | None, bool]:
    """Return the section at *path*, and whether the path led through a list or table of sections."""
    current: type[BaseModel] | None = model
    container = around = False
    for part in path:
        if container:  # this part is the index or the name of one section inside
            container, around = False, True
            continue
        field = current.model_fields.get(part) if current is not None and isinstance(part, str) else None
        if field is None:
            return None, around
        current, container = _inner(field.annotation)
    return (None if container else current), around


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section that *field* contains directly; None for a list, a table or a plain value."""
    inner, container = _inner(field.annotation)
    return None if container else inner


def is_secret(field: FieldInfo | None) -> bool:
    """Return whether the field's value is a secret, which is never shown."""
    return field is not None and SecretStr in _members(field.annotation)


def is_complex(field: FieldInfo) -> bool:
    """Return whether the field's environment variable must contain JSON: for a list, a table or a section."""
    return any(
        get_origin(member) in (tuple, list, dict)
        or (isinstance(member, type) and issubclass(member, BaseModel))
        for member in _members(field.annotation)
    )


def leaves(
    model: type[BaseModel], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Yield every setting that is a single value, with its path, in the order of declaration."""
    for name, field in model.model_fields.items():
        section = section_of(field)
        if section is None:
            yield (*above, name), field
        else:
            yield from leaves(section, (*above, name))


def closest(model: type[BaseModel], path: Path) -> str | None:
    """Return the setting whose name is most like *path*, or None if no name is similar."""
    *above, last = path
    siblings, around = _section_at(model, tuple(above))
    if siblings is not None and isinstance(last, str):
        near = difflib.get_close_matches(last, siblings.model_fields, n=1)
        if near:
            return dotted((*above, near[0]))
    if around:
        return None
    sections = {name for name, field in model.model_fields.items() if section_of(field) is not None}
    known = {dotted(leaf) for leaf, _ in leaves(model)} | sections
    near = difflib.get_close_matches(dotted(path), known, n=1, cutoff=0.75)
    if near:
        return near[0]
    same_leaf = [name for name in sorted(known) if name.rpartition(".")[2] == last]
    return same_leaf[0] if len(same_leaf) == 1 else None


def accepted_values(field: FieldInfo, name: str) -> str:
    """Describe the values that *field* accepts: kind, bounds and unit."""
    members = [member for member in _members(field.annotation) if member is not type(None)]
    choices = [choice for member in members if get_origin(member) is Literal for choice in get_args(member)]
    if choices:
        return "one of " + ", ".join(str(choice) for choice in choices)
    if any(get_origin(member) in (tuple, list) for member in members):
        return "a list" + _size(field)
    if any(
        get_origin(member) is dict or (isinstance(member, type) and issubclass(member, BaseModel))
        for member in members
    ):
        return "a table"
    noun = next((_NOUNS[member] for member in members if member in _NOUNS), "text")
    return noun + _bounds(field) + _size(field) + _unit(name)


def describe_fault(model: type[BaseModel], detail: ErrorDetails, overview: str) -> str:
    """Describe the fault of one value: the fault, the values that are accepted, and the value unless secret.

    Args:
        model: The model that was validated.
        detail: One error of pydantic, with its path counted from *model*.
        overview: The place that lists all keys, shown for a key that is similar to none.
    """
    path: Path = tuple(detail["loc"])
    field = find_field(model, path)
    if detail["type"] == "extra_forbidden":
        near = closest(model, path)
        return "no such key; " + (f"did you mean {near}?" if near else f"see {overview}")
    if detail["type"] == "missing":
        return "is missing; add it"
    if detail["type"] == "value_error":
        return str(detail.get("ctx", {}).get("error", detail["msg"]))
    if detail["type"] == "string_type" and field is None:
        return "must be text; put it into quotes"
    if field is None:
        return detail["msg"][:1].lower() + detail["msg"][1:]
    value = detail["input"]
    plain = isinstance(value, str | int | float) and not is_complex(field) and not is_secret(field)
    return f"must be {accepted_values(field, str(path[-1]))}" + (f", not {value!r:.80}" if plain else "")


def as_value_error(check: Callable[[_T], _R], value: _T) -> _R:
    """Call *check* and raise its ConfigError as a ValueError, so that pydantic lists it with other errors."""
    try:
        return check(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _bounds(field: FieldInfo) -> str:
    low, high = _constraint(field, "ge"), _constraint(field, "le")
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}" if max(low, high) < 1e6 else f" from {low:.0f} to {high:.0f}"
    pattern = _constraint(field, "pattern")
    return f" that matches {pattern}" if pattern is not None else ""


def _size(field: FieldInfo) -> str:
    high = _constraint(field, "max_length")
    return f", at most {high} long" if high is not None else ""


def _unit(name: str) -> str:
    return next(
        (
            f", {unit}" if unit.startswith("as") else f", in {unit}"
            for end, unit in _UNITS.items()
            if name.endswith(end)
        ),
        "",
    )


def _constraint(field: FieldInfo, name: str) -> Any:
    values = [getattr(item, name) for item in field.metadata if getattr(item, name, None) is not None]
    return values[0] if values else None


def _members(annotation: object) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _inner(annotation: object) -> tuple[type[BaseModel] | None, bool]:
    """Return the section inside *annotation*, and whether it is inside a list or table."""
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel) and not issubclass(member, Enum):
            return member, False
        if get_origin(member) in (tuple, list, dict):
            for inner in get_args(member):
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    return inner, True
            return None, True
    return None, False
