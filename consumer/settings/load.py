"""Read leveret.toml and ``LEVERET_*`` into one frozen :class:`Settings`, and record the origin of each value.

Data flow: profile and preset, file, environment, options -> merged layers -> Settings.

The file is the one that ``LEVERET_CONFIG`` names (it must exist), else ``./leveret.toml``, else
``leveret.toml`` in ``LEVERET_HOME``. An empty variable counts as absent. Two groups of variables are ignored:
those that Kubernetes sets for a service called ``leveret``, and ``LEVERET_TEST_*``.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from consumer.core import schema
from consumer.core.errors import ConfigError
from consumer.core.text.printable import printable
from consumer.settings.presets import PRESETS, PROFILES
from consumer.settings.root import Settings

PREFIX = "LEVERET_"
CONFIG_VARIABLE = "LEVERET_CONFIG"
FILE_NAME = "leveret.toml"
_SERVER_VARIABLES = ("SERVER", "TOKEN_FILE", "SERVER_CA_FILE", "SERVER_TIMEOUT_S", "SERVER_ALLOW_HTTP")
_NO_SETTINGS = frozenset({CONFIG_VARIABLE, *(f"LEVERET_{name}" for name in _SERVER_VARIABLES)})
"""Variables that are read before any setting: the file of the settings, and options of a remote command."""

_FOREIGN = re.compile(r"LEVERET_(SERVICE_(HOST|PORT).*|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?|TEST_.*)")
"""Source: Kubernetes, "Accessing the Service": {SVCNAME}_SERVICE_HOST, {SVCNAME}_PORT_8080_TCP_ADDR..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings and the origin of each."""

    settings: Settings
    origins: Mapping[str, str]  #: dotted key -> origin; an absent key has its default
    file: Path | None  #: the file that was read

    def origin(self, key: str) -> str:
        """Return the origin of *key*: ``default``, a file, a variable, a profile, a preset or an option."""
        return _origin(self.origins, key)


def _origin(origins: Mapping[str, str], key: str) -> str:
    """Return the origin of *key*: its own, that of the table around it, or that of a value inside it."""
    inside = next((origin for name, origin in origins.items() if name.startswith(f"{key}.")), "default")
    while key:
        if key in origins:
            return origins[key]
        key = key.rpartition(".")[0]
    return inside


@dataclass(frozen=True, slots=True)
class _Layer:
    values: Mapping[str, object]
    origins: Mapping[str, str]


def load_settings(
    environ: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> Settings:
    """Return the effective settings; see :func:`load`."""
    return load(environ, options).settings


def load(environ: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None) -> Loaded:
    """Merge all layers and validate the result.

    Args:
        environ: Variables; None is the environment of the process.
        options: Nested values of the command line, which override everything else.

    Raises:
        ConfigError: one line per fault, each with key, fault, origin and the values that are accepted.
    """
    environ = os.environ if environ is None else environ
    file = _find_file(environ)
    upper = [
        *([_from_file(file)] if file else []),
        _from_environment(environ),
        _Layer(options or {}, {schema.dotted(path): "option" for path, _ in _walk(options or {})}),
    ]
    upper = _settle_pairs(upper)
    layers = [*_named_layers(_merge(upper).values), *upper]
    merged = _merge(layers)
    try:
        settings = Settings.model_validate(merged.values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(detail, merged) for detail in error.errors())) from None
    # made absolute once, so that a later change of the working folder cannot lead to another home
    settings = settings.model_copy(update={"home": settings.home.absolute()})
    return Loaded(settings=settings, origins=merged.origins, file=file)


def variable(name: str) -> str | None:
    """Return the value of a variable that an operator named to a command, for example for a secret."""
    return os.environ.get(name)


def child_environment() -> Mapping[str, str]:
    """Return the variables for a child, which finds this package before any other one of the same name."""
    before = os.environ.get("PYTHONPATH")
    folders = [str(Path(__file__).parents[2]), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def _find_file(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(CONFIG_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise ConfigError(
                f"{CONFIG_VARIABLE}: the file {named} does not exist; name an existing one or unset it"
            )
        return Path(named)
    home = environ.get("LEVERET_HOME") or ".leveret"
    return next((path for path in (Path(FILE_NAME), Path(home) / FILE_NAME) if path.is_file()), None)


def _from_file(path: Path) -> _Layer:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    return _Layer(values, {schema.dotted(keys): f"file {path}" for keys, _ in _walk(values)})


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    for name in sorted(environ):
        text = environ[name]
        if not name.startswith(PREFIX) or name in _NO_SETTINGS or _FOREIGN.fullmatch(name) or not text:
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        try:
            value = _parse_variable(name, text, path)
        except ConfigError as error:
            problems.append(str(error))
            continue
        _set(values, path, value)
        origins[schema.dotted(path)] = f"env {name}"
    if problems:
        raise ConfigError("\n".join(problems))
    return _Layer(values, origins)


def _parse_variable(name: str, text: str, path: tuple[str, ...]) -> object:
    field = schema.find_field(Settings, path)
    if field is None:
        near = schema.closest(Settings, path)
        remedy = f"did you mean {variable_name(near)}?" if near else "see `leveret config show`"
        raise ConfigError(f"{name}: no such setting; {remedy}")
    if not schema.is_complex(field):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        accepted = schema.accepted_values(field, path[-1])
        example = "'[\"127.0.0.0/8\"]'" if accepted.startswith("a list") else "'{}'"
        raise ConfigError(f"{name}: is not JSON; write {accepted} as JSON, such as {example}") from None


def variable_name(key: str) -> str:
    """Return the variable that sets the dotted *key*."""
    return PREFIX + key.replace(".", "__").upper()


def _named_layers(values: Mapping[str, object]) -> list[_Layer]:
    """Return the layers of the chosen profile and preset; validation reports unknown names."""
    layers = []
    for kind, known in (("profile", PROFILES), ("preset", PRESETS)):
        name = values.get(kind)
        if isinstance(name, str) and name in known:
            layer = known[name]
            layers.append(_Layer(layer, {schema.dotted(path): f"{kind} {name}" for path, _ in _walk(layer)}))
    return layers


_PAIRS = (
    ("amqp_url", "amqp_url_file"),
    ("database_url", "database_url_file"),
    ("store.key", "store.key_file"),
    ("tracing.headers", "tracing.headers_file"),
)
"""Pairs of settings for the same value."""


def _settle_pairs(layers: list[_Layer]) -> list[_Layer]:
    """Let the highest layer that sets one of a pair hide both settings in the layers below."""
    settled: list[_Layer] = []
    hidden: set[str] = set()
    for layer in reversed(layers):
        values: dict[str, object] = {}
        shown = [(path, value) for path, value in _walk(layer.values) if schema.dotted(path) not in hidden]
        for path, value in shown:
            _set(values, path, value)
        settled.insert(0, _Layer(values, {k: v for k, v in layer.origins.items() if k not in hidden}))
        given = {schema.dotted(path) for path, _ in shown}
        hidden |= {key for pair in _PAIRS if given.intersection(pair) for key in pair}
    return settled


def _merge(layers: list[_Layer]) -> _Layer:
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for path, value in _walk(layer.values):
            _set(values, path, value)
        origins.update(layer.origins)
    return _Layer(values, origins)


def _walk(
    values: Mapping[str, object], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _walk(value, (*above, key))
        else:
            yield (*above, key), value


def _set(values: dict[str, object], path: tuple[str, ...], value: object) -> None:
    """Set *value* at *path*; a table is merged into an existing table, any other value replaces."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            _set(values, (*path, key), inner)
        return
    target = values
    for part in path[:-1]:
        inner = target.get(part)
        if not isinstance(inner, dict):
            inner = {}
            target[part] = inner
        target = inner
    target[path[-1]] = value


def _explain(detail: ErrorDetails, merged: _Layer) -> str:
    """Write one validation error as one line: key, origin, fault, accepted values."""
    key = schema.dotted(tuple(detail["loc"]))
    origin = _origin(merged.origins, re.sub(r"\[\d+\]", "", key))
    where = "" if origin == "default" else f" ({origin})"
    fault = schema.describe_fault(Settings, detail, "`leveret config show`")
    return printable(f"{key or 'settings'}{where}: {fault}")
