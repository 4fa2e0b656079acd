"""Read subscriptions from YAML or JSON text, and name line and field of everything that is wrong.

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
    SubscriptionRules,
    refuse_endpoint,
)
from consumer.core.subscription.policy import RetryChoice
from consumer.core.text.printable import printable
from consumer.core.text.urls import parse_url
from consumer.core.webhook.signing import SigningKey

NODES_MAX = 500_000
"""Most values in one file, aliases expanded."""

ALIASED_MAX = 10_000
"""Most of them that aliases repeat: a small file of nested aliases must not fill the memory."""

TEXT_MAX = 32 * 1024 * 1024
"""Characters of one file: 10,000 subscriptions take some 5 million."""

DEPTH_MAX = 32  #: levels; a subscription needs five
NUMBER_MAX = 64  #: characters of what YAML takes for a number or a time; see :func:`_scalar`

_OVERVIEW = "the subscriptions file in the docs"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset({f"{_TAG}seq", f"{_TAG}map"})
_TEXT_TAGS = frozenset({f"{_TAG}{name}" for name in ("str", "null", "bool")})
_NUMBER_TAGS = frozenset({f"{_TAG}{name}" for name in ("int", "float", "timestamp")})
_Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something that is wrong, and where."""

    line: int  #: 1-based
    key: str
    text: str

    def describe(self, source: str) -> str:
        """Return the problem as one line."""
        return printable(f"{source}:{self.line}: {self.key + ': ' if self.key else ''}{self.text}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The entries of a file, in its order."""

    entries: Sequence[SubscriptionEntry]
    warnings: Sequence[str] = ()  #: one line each


@dataclass(slots=True)
class _Document:
    """The values of a text, the line of each, and what is wrong with it so far."""

    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0
    known: set[int] = field(default_factory=set)  #: ids of the nodes that were met, which all live on

    def line(self, path: Path) -> int:
        """Return the line of the value at *path*, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def complain(self, path: Path, text: str) -> None:
        """Note a problem with the value at *path*."""
        self.problems.append(Problem(self.line(path), schema.dotted(path), text))


def parse_subscriptions(text: str, source: str, rules: SubscriptionRules) -> Parsed:
    """Read and check one subscriptions file; see :func:`parse_files`."""
    return parse_files([(source, text)], rules)


def parse_files(files: Sequence[tuple[str, str]], rules: SubscriptionRules) -> Parsed:
    """Read and check subscriptions files as if they were one.

    Args:
        files: Name, for the messages, and text of each: YAML, or JSON, which is YAML too.
        rules: What policies there are and where webhooks may go.

    Raises:
        ConfigError: one line per problem, file by file and sorted by line: file, line, field, fault and
            remedy.
    """
    documents = {source: _Document() for source, _ in files}
    entries: dict[int, SubscriptionEntry] = {}
    places: list[tuple[str, Path]] = []  # of each entry, whether it could be read or not
    lines: dict[str, str] = {}
    for source, text in files:
        try:
            for index, values in _entries(text, source, documents[source]):
                path: Path = ("subscriptions", index)
                entry = _checked(values, path, rules, documents[source])
                if entry is not None:
                    entries[len(places)] = entry
                places.append((source, path))
        except ConfigError as error:  # no YAML at all
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
    told = [problem.describe(source) for source, found in warnings.items() for problem in sorted(found)]
    return Parsed(tuple(entries.values()), tuple(told))


def parse_entry(values: Mapping[Hashable, object], rules: SubscriptionRules) -> SubscriptionEntry:
    """Check one entry that stands in no file.

    Raises:
        ConfigError: one line per problem: field, fault and remedy.
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
        document.complain(path, "must be a mapping with url and events")
        return None
    _check_against(rules, path, values, document)
    return _read_entry(path, values, document)


def clashes(entries: Mapping[int, SubscriptionEntry]) -> Iterable[tuple[int, str, str, bool]]:
    """Yield what is wrong between entries: number of the later one, field, fault, and whether it may pass.

    A tenant has one subscription per URL and per name. A secret of another tenant is refused, since either
    could forge the other's webhooks; one tenant's secret at two of its endpoints is warned about.

    Source: words, subscription; SW-30; fault 29.
    """
    urls: dict[tuple[str, str], SubscriptionEntry] = {}
    names: set[tuple[str, str]] = set()
    owners: dict[SigningKey, SubscriptionEntry] = {}
    for index, entry in entries.items():
        twin = urls.setdefault((entry.tenant, entry.url), entry)
        if twin is not entry:
            fault = f"tenant {entry.tenant} has this URL already, as {twin.label!r}; merge the two"
            yield index, "url", fault, False
        elif (entry.tenant, entry.label) in names:
            fault = f"tenant {entry.tenant} has {entry.label!r} already; choose another name"
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
        document.complain((), "must begin with `subscriptions:` and a list")
        return
    for key in values.keys() - {"subscriptions", "version"}:
        document.complain((str(key),), "no such key; only `subscriptions` stands at the top")
    entries = values["subscriptions"]
    if not isinstance(entries, list):
        document.complain(("subscriptions",), "must be a list; begin each entry with `- `")
        return
    yield from enumerate(entries)


def _read_entry(
    path: Path, values: Mapping[Hashable, object], document: _Document
) -> SubscriptionEntry | None:
    try:
        return SubscriptionEntry.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            fault = schema.fault(SubscriptionEntry, detail, _OVERVIEW)
            document.complain((*path, *detail["loc"]), fault)
    return None


def _check_against(
    rules: SubscriptionRules, path: Path, values: Mapping[Hashable, object], document: _Document
) -> None:
    """Check what depends on the settings; a value that is wrong in itself is told elsewhere."""
    url, retry = values.get("url"), values.get("retry")
    with suppress(ValueError):
        reason = refuse_endpoint(parse_url(url), rules.egress) if isinstance(url, str) else None
        if reason is not None:
            document.complain((*path, "url"), f"{reason}; see egress.allow and egress.allow_http")
    with suppress(ValidationError):
        fields = AuthFields.model_validate(values["auth"]) if values.get("auth") is not None else None
        oauth2 = None if fields is None else fields.oauth2
        refused = None if oauth2 is None else refuse_endpoint(parse_url(oauth2.token_url), rules.egress)
        if refused is not None:
            document.complain((*path, "auth", "oauth2", "token_url"), f"{refused}; see egress.allow")
    with suppress(ValidationError):
        try:
            if retry is not None:
                RetryChoice.model_validate(retry).build(rules.policies, rules.retry)
        except ConfigError as error:  # its text begins with the key, counted from the entry
            key, _, fault = str(error).partition(": ")
            document.complain((*path, *key.split(".")), fault)


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
    """Say where the text is no YAML, without repeating any of it: a secret may stand there."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{source}:{mark.line + 1}: is not YAML: {error.problem} (column {mark.column + 1})"
    if isinstance(error, RecursionError):
        return f"{source}:1: is nested too deeply; a subscription needs three levels"
    if isinstance(error, yaml.YAMLError):
        return f"{source}:1: is not YAML: it holds characters that YAML does not allow"
    return f"{source}:1: is not usable: {error}"


def _value(
    node: yaml.Node, path: Path, document: _Document, loader: yaml.CSafeLoader | yaml.SafeLoader
) -> object:
    """Turn *node* into a plain value, and note the line of everything in it."""
    _count(node, path, document)
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


def _count(node: yaml.Node, path: Path, document: _Document) -> None:
    """Refuse a text that grows far beyond its size."""
    document.nodes += 1
    document.known.add(id(node))
    if document.nodes > NODES_MAX:
        raise ValueError(f"more than {NODES_MAX} values, aliases counted; split the file")
    if document.nodes - len(document.known) > ALIASED_MAX:
        raise ValueError(f"its aliases repeat more than {ALIASED_MAX} values; write them out")
    if len(path) > DEPTH_MAX:
        raise RecursionError


def _scalar(node: yaml.ScalarNode, loader: yaml.CSafeLoader | yaml.SafeLoader) -> object:
    """Return a text, number, truth, time or None.

    YAML 1.1 takes 1:00:00 for a number to the base of 60, and the library needs quadratic time for it.
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
            document.complain(path, "has a key that is no text; put it into quotes")
            continue
        inner: Path = (*path, str(key))
        document.lines[inner] = key_node.start_mark.line + 1
        if key in values:
            document.complain(inner, "stands there twice; remove one")
        value = _value(value_node, inner, document, loader)
        document.lines[inner] = key_node.start_mark.line + 1
        if value is not None:  # `retry:` with nothing behind it says nothing
            values[key] = value
    return values
