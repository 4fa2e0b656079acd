"""Read subscriptions from YAML or JSON text, and name line and field of every fault.

Data flow: text -> compose (values and the line of each) -> SubscriptionEntry per entry -> checks between
entries -> tuple of entries, or one ConfigError with a line per problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError

from consumer.core import schema
from consumer.core.errors import ConfigError
from consumer.core.schema import Path
from consumer.core.subscription.access_entry import AuthFields
from consumer.core.subscription.entry import (
    SubscriptionEntry,
    refuse_endpoint,
)
from consumer.core.subscription.policy import RetryChoice
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.text.printable import printable
from consumer.core.text.urls import parse_url
from consumer.core.webhook.signing import SigningKey

NODES_MAX = 500_000
"""Most values in one file, aliases expanded."""

ALIASED_MAX = 10_000
"""Most values that aliases may repeat, so that a small file of nested aliases cannot exhaust the memory."""

TEXT_MAX = 32 * 1024 * 1024
"""Most characters of one file; 10,000 subscriptions take about 5 million."""

DEPTH_MAX = 32  #: levels; a subscription needs five
NUMBER_MAX = 64  #: characters of a number or time in YAML; see :func:`_scalar`

_OVERVIEW = "the subscriptions file in the docs"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset({f"{_TAG}seq", f"{_TAG}map"})
_TEXT_TAGS = frozenset({f"{_TAG}{name}" for name in ("str", "null", "bool")})
_NUMBER_TAGS = frozenset({f"{_TAG}{name}" for name in ("int", "float", "timestamp")})
_Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault and its place."""

    line: int  #: 1-based
    key: str
    text: str

    def describe(self, source: str) -> str:
        """Return the problem as one line."""
        return printable(f"{source}:{self.line}: {self.key + ': ' if self.key else ''}{self.text}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The entries of a file, in the order of the file."""

    entries: Sequence[SubscriptionEntry]
    warnings: Sequence[str] = ()  #: one line each


@dataclass(slots=True)
class _Document:
    """The lines of a text's values, the faults found so far, and a count that limits aliases."""

    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _nodes: int = 0
    _seen: set[int] = field(default_factory=set)  # ids of the counted nodes, which all stay alive

    def line(self, path: Path) -> int:
        """Return the line of the value at *path*, or of the nearest value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def report(self, path: Path, text: str) -> None:
        """Record a fault of the value at *path*."""
        self.problems.append(Problem(self.line(path), schema.dotted(path), text))

    def count(self, node: yaml.Node, depth: int) -> None:
        """Count *node*, and refuse a text whose aliases make it far larger than it looks.

        Raises:
            ValueError: the text has too many values, or its aliases repeat too many.
            RecursionError: *depth*, in levels, is too large.
        """
        self._nodes += 1
        self._seen.add(id(node))
        if self._nodes > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} values, aliases counted; split the file")
        if self._nodes - len(self._seen) > ALIASED_MAX:
            raise ValueError(f"its aliases repeat more than {ALIASED_MAX} values; write them out")
        if depth > DEPTH_MAX:
            raise RecursionError


def parse_subscriptions(text: str, source: str, rules: SubscriptionRules) -> Parsed:
    """Read and check one subscriptions file; see :func:`parse_files`."""
    return parse_files([(source, text)], rules)


def parse_files(files: Sequence[tuple[str, str]], rules: SubscriptionRules) -> Parsed:
    """Read and check several subscriptions files as one.

    Args:
        files: Name (for messages) and text of each file. The text is YAML or JSON, which is also YAML.
        rules: The retry policies, and the addresses that webhooks may reach.

    Raises:
        ConfigError: one line per fault, sorted by file and line: file, line, field, fault and remedy.
    """
    documents = {source: _Document() for source, _ in files}
    entries: dict[int, SubscriptionEntry] = {}
    places: list[tuple[str, Path]] = []  # of each entry, readable or not
    lines: dict[str, str] = {}
    for source, text in files:
        try:
            for index, values in _entries(text, source, documents[source]):
                path: Path = ("subscriptions", index)
                entry = _checked(values, path, rules, documents[source])
                if entry is not None:
                    entries[len(places)] = entry
                places.append((source, path))
        except ConfigError as error:  # the text is not YAML
            lines[source] = str(error)
    warnings: dict[str, list[Problem]] = {source: [] for source in documents}
    for index, key, fault, is_warning in clashes(entries):
        source, path = places[index]
        found = Problem(documents[source].line((*path, key)), schema.dotted((*path, key)), fault)
        (warnings[source] if is_warning else documents[source].problems).append(found)
    faults = [
        line
        for source, document in documents.items()
        for line in (lines.get(source), *(p.describe(source) for p in sorted(set(document.problems))))
        if line is not None
    ]
    if faults:
        raise ConfigError("\n".join(faults))
    texts = [problem.describe(source) for source, found in warnings.items() for problem in sorted(found)]
    return Parsed(tuple(entries.values()), tuple(texts))


def parse_entry(values: Mapping[Hashable, object], rules: SubscriptionRules) -> SubscriptionEntry:
    """Check one entry that comes from no file.

    Raises:
        ConfigError: one line per fault: field, fault and remedy.
    """
    document = _Document()
    entry = _checked(values, (), rules, document)
    if document.problems or entry is None:
        faults = [f"{p.key + ': ' if p.key else ''}{p.text}" for p in dict.fromkeys(document.problems)]
        raise ConfigError("\n".join(map(printable, faults)))
    return entry


def _checked(
    values: object, path: Path, rules: SubscriptionRules, document: _Document
) -> SubscriptionEntry | None:
    if not isinstance(values, dict):
        document.report(path, "must be a mapping with url and events")
        return None
    _check_against(rules, path, values, document)
    return _read_entry(path, values, document)


def clashes(entries: Mapping[int, SubscriptionEntry]) -> Iterable[tuple[int, str, str, bool]]:
    """Yield conflicts between entries: number of the later entry, field, fault, and whether it is a warning.

    A tenant has one subscription per URL and per name. A secret of another tenant is refused, because each
    tenant could forge the other's webhooks. If one tenant uses a secret at two of its endpoints, that is only
    a warning.

    Source: SW-30; fault 29.
    """
    urls: dict[tuple[str, str], SubscriptionEntry] = {}
    names: set[tuple[str, str]] = set()
    owners: dict[SigningKey, SubscriptionEntry] = {}
    for index, entry in entries.items():
        twin = urls.setdefault((entry.tenant, entry.url), entry)
        if twin is not entry:
            fault = f"tenant {entry.tenant} already has this URL, as {twin.label!r}; merge the two"
            yield index, "url", fault, False
        elif (entry.tenant, entry.label) in names:
            fault = f"tenant {entry.tenant} already has {entry.label!r}; choose another name"
            yield index, "name", fault, False
        names.add((entry.tenant, entry.label))
        for key in entry.signing_keys():
            owner = owners.setdefault(key, entry)
            if owner is entry:
                continue
            foreign = owner.tenant != entry.tenant
            fault = f"{owner.tenant}/{owner.label} has the same secret; give each endpoint its own"
            yield index, "secrets", fault, not foreign


def _entries(text: str, source: str, document: _Document) -> Iterable[tuple[int, object]]:
    values = _compose(text, source, document)
    if not isinstance(values, dict) or "subscriptions" not in values:
        document.report((), "must begin with `subscriptions:` and a list")
        return
    for key in values.keys() - {"subscriptions", "version"}:
        document.report((str(key),), "no such key; the top level has only `subscriptions`")
    entries = values["subscriptions"]
    if not isinstance(entries, list):
        document.report(("subscriptions",), "must be a list; begin each entry with `- `")
        return
    yield from enumerate(entries)


def _read_entry(
    path: Path, values: Mapping[Hashable, object], document: _Document
) -> SubscriptionEntry | None:
    try:
        return SubscriptionEntry.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            fault = schema.describe_fault(SubscriptionEntry, detail, _OVERVIEW)
            document.report((*path, *detail["loc"]), fault)
    return None


def _check_against(
    rules: SubscriptionRules, path: Path, values: Mapping[Hashable, object], document: _Document
) -> None:
    """Check the values that depend on the settings; faults of a value alone are reported elsewhere."""
    url, retry = values.get("url"), values.get("retry")
    with suppress(ValueError):
        reason = refuse_endpoint(parse_url(url), rules.egress) if isinstance(url, str) else None
        if reason is not None:
            document.report((*path, "url"), f"{reason}; see egress.allow and egress.allow_http")
    with suppress(ValidationError):
        fields = AuthFields.model_validate(values["auth"]) if values.get("auth") is not None else None
        oauth2 = None if fields is None else fields.oauth2
        refused = None if oauth2 is None else refuse_endpoint(parse_url(oauth2.token_url), rules.egress)
        if refused is not None:
            document.report((*path, "auth", "oauth2", "token_url"), f"{refused}; see egress.allow")
    with suppress(ValidationError):
        try:
            if retry is not None:
                RetryChoice.model_validate(retry).build(rules.policies, rules.retry)
        except ConfigError as error:  # its text begins with the key, relative to the entry
            key, _, fault = str(error).partition(": ")
            document.report((*path, *key.split(".")), fault)


def _compose(text: str, source: str, document: _Document) -> object:
    if len(text) > TEXT_MAX:
        raise ConfigError(f"{source}:1: has more than {TEXT_MAX} characters; split the file")
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _value(node, (), document, loader)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(_syntax(error, source)) from None


def _syntax(error: Exception, source: str) -> str:
    """Return where the text is not YAML, without a quotation, because the text may contain a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{source}:{mark.line + 1}: is not YAML: {error.problem} (column {mark.column + 1})"
    if isinstance(error, RecursionError):
        return f"{source}:1: is nested too deeply; a subscription needs three levels"
    if isinstance(error, yaml.YAMLError):
        return f"{source}:1: is not YAML: it contains characters that YAML does not allow"
    return f"{source}:1: is not usable: {error}"


def _value(
    node: yaml.Node, path: Path, document: _Document, loader: yaml.CSafeLoader | yaml.SafeLoader
) -> object:
    """Turn *node* into a plain value, and record the line of every value in it."""
    document.count(node, len(path))
    document.lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, loader)
    if node.tag not in _PLAIN_TAGS:
        raise ConstructorError(None, None, "a tag that no subscription needs", node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, index), document, loader) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, document, loader)
    raise ConstructorError(None, None, "a kind of value that no subscription needs", node.start_mark)


def _scalar(node: yaml.ScalarNode, loader: yaml.CSafeLoader | yaml.SafeLoader) -> object:
    """Return a text, number, truth value, time or None.

    Long numbers are refused: YAML 1.1 reads 1:00:00 as a base-60 number, in quadratic time.
    """
    if node.tag not in _TEXT_TAGS and node.tag not in _NUMBER_TAGS:
        raise ConstructorError(None, None, "a tag that no subscription needs", node.start_mark)
    if node.tag in _NUMBER_TAGS and len(node.value) > NUMBER_MAX:
        problem = f"a number of more than {NUMBER_MAX} characters; put text into quotes"
        raise ConstructorError(None, None, problem, node.start_mark)
    return loader.construct_object(node)


def _mapping(
    node: yaml.MappingNode, path: Path, document: _Document, loader: yaml.CSafeLoader | yaml.SafeLoader
) -> dict[Hashable, object]:
    values: dict[Hashable, object] = {}
    for key_node, value_node in node.value:
        key = _value(key_node, path, document, loader)
        if not isinstance(key, str | int):
            document.report(path, "has a key that is not text; put it into quotes")
            continue
        inner: Path = (*path, str(key))
        document.lines[inner] = key_node.start_mark.line + 1
        if key in values:
            document.report(inner, "is listed twice; remove one")
        value = _value(value_node, inner, document, loader)
        document.lines[inner] = key_node.start_mark.line + 1
        if value is not None:  # `retry:` without a value counts as absent
            values[key] = value
    return values
