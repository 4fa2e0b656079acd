"""The JSON Schema of a subscriptions file, for editors.

Data flow: SubscriptionEntry (pydantic) -> its schema, extended to accept nulls and narrowed to the rules of
the field validators -> one document in draft 7, the draft that YAML editors support best.

The schema covers a single entry. Only the parser checks conflicts between entries, addresses, the public half
of a key, headers that differ only in case, look-alike host names, and whether a stored secret exists for
`***`. The parser also accepts a number or ``true`` in quotes, which this schema refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from consumer.core.retry.policy import RetryPolicy
from consumer.core.schema import describe_fields
from consumer.core.subscription.entry import HEADER_VALUE_MAX, OUR_HEADERS, OUR_PREFIXES, SubscriptionEntry
from consumer.core.subscription.match import PATTERN_MAX_CHARS
from consumer.core.text.urls import URL_MAX

_WORD: Final = r"(?:\*|#|[A-Za-z0-9_]+)"
_FOUR: Final = "[A-Za-z0-9+/]{4}"
_TAIL: Final = "(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?"
_NOT_MISSPELT: Final = "(?![WHSECKPwhseckp]{4,5}[_-])"
_REST: Final = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[^\u0000-\u0020\u007f-\u00a0/?#@:\[\]\\]+)"

_URL: Final = rf"^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(?::[0-9]*)?(?:[/?]{_REST})?$"
_SECRETS: Final = (
    rf"^whsec_(?:(?:{_FOUR}){{8,20}}{_TAIL}|(?:{_FOUR}){{21}}(?:[A-Za-z0-9+/]{{2}}(?:==)?)?)$",
    "^whsk_[A-Za-z0-9+/]{86}(?:==)?$",
    rf"^{_NOT_MISSPELT}[\u0021-\u007e][\u0020-\u007e]{{22,62}}[\u0021-\u007e]$",
    rf"^{_NOT_MISSPELT}(?=[^\n]*[^\u0000-\u007f])[^\s\u0000-\u001f\u007f-\u00a0]"
    r"[^\u0000-\u001f\u007f-\u00a0]{4,62}[^\s\u0000-\u001f\u007f-\u00a0]$",
)
_NAME: Final = (
    r"^[^\s\u0000-\u001f\u007f-\u00a0](?:[^\u0000-\u001f\u007f-\u00a0]*[^\s\u0000-\u001f\u007f-\u00a0])?$"
)
_STATUS: Final = "^(?:[3-5][0-9]{2}|[345][Xx]{2})$"
_HEADER_VALUE: Final = r"^[\u0021-\u007e](?:[\u0020-\u007e\t]*[\u0021-\u007e])?$"
_FORMULA: Final = ("base_s", "multiplier", "max_s")
_DROPPED: Final = frozenset({"$ref", "title", "default", "format", "writeOnly"})

Schema = dict[str, Any]


def subscriptions_schema(policies: Mapping[str, RetryPolicy]) -> Schema:
    """Return the schema of a whole file.

    Args:
        policies: The policies that ``retry.policy`` may name.
    """
    describe_fields(SubscriptionEntry)
    whole = SubscriptionEntry.model_json_schema()
    entry = _plain(whole, whole.pop("$defs", {}))
    _narrow(entry["properties"], policies)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Leveret subscriptions",
        "type": "object",
        "required": ["subscriptions"],
        "additionalProperties": False,
        "properties": {
            "subscriptions": {
                "description": "Endpoints and the events that each of them gets.",
                "type": "array",
                "items": entry,
            },
            "version": {"description": "Accepted and ignored."},
        },
    }


def _plain(node: Schema, parts: Mapping[str, Schema]) -> Schema:
    """Return *node* with references resolved, without titles, and with null for every optional key.

    The parser treats a key without a value as absent.
    """
    if "$ref" in node:
        node = {**parts[node["$ref"].rpartition("/")[2]], **node}
    plain = {key: value for key, value in node.items() if key not in _DROPPED}
    if "description" in plain:
        plain["description"] = " ".join(plain["description"].split())
    if "properties" in plain:
        inner = {name: _plain(value, parts) for name, value in plain["properties"].items()}
        required = plain.get("required", ())
        plain["properties"] = {n: v if n in required else _nullable(v) for n, v in inner.items()}
    if isinstance(plain.get("additionalProperties"), dict):
        plain["additionalProperties"] = _nullable(_plain(plain["additionalProperties"], parts))
    if "items" in plain:
        plain["items"] = _plain(plain["items"], parts)
    return _joined(plain, parts) if "anyOf" in plain else plain


def _joined(node: Schema, parts: Mapping[str, Schema]) -> Schema:
    """Write "this or null" as one schema with two types."""
    choices = [_plain(choice, parts) for choice in node["anyOf"] if choice != {"type": "null"}]
    if len(choices) > 1:
        return node | {"anyOf": choices}
    return choices[0] | {key: value for key, value in node.items() if key != "anyOf"}


def _nullable(node: Schema) -> Schema:
    if "anyOf" in node:
        return node | {"anyOf": [*node["anyOf"], {"type": "null"}]}
    opened = node | {"type": [node["type"], "null"]}
    return opened | {"enum": [*node["enum"], None]} if "enum" in node else opened


def _narrow(fields: Mapping[str, Schema], policies: Mapping[str, RetryPolicy]) -> None:
    """Add the rules of the field validators."""
    fields["name"]["pattern"] = _NAME
    fields["url"] |= {"pattern": _URL, "maxLength": URL_MAX}
    fields["events"]["items"] |= {"pattern": rf"^{_WORD}(?:\.{_WORD})*$", "maxLength": PATTERN_MAX_CHARS}
    fields["secrets"] |= {"uniqueItems": True}
    fields["secrets"]["items"] |= {"anyOf": [{"pattern": pattern} for pattern in _SECRETS]}
    fields["on_status"]["propertyNames"] = {"pattern": _STATUS}
    fields["headers"]["propertyNames"] = {"pattern": _header_name()}
    fields["headers"]["additionalProperties"] |= {"pattern": _HEADER_VALUE, "maxLength": HEADER_VALUE_MAX}
    _narrow_retry(fields["retry"], policies)
    _narrow_auth(fields["auth"])
    _narrow_tls(fields["tls"])


def _narrow_auth(auth: Schema) -> None:
    methods = auth["properties"]
    methods["bearer"]["pattern"] = r"^(?:[A-Za-z0-9._~+/-]+=*|\*\*\*)$"
    methods["basic"]["properties"]["username"]["pattern"] = r"^[^:\u0000-\u001f\u007f]+$"
    methods["basic"]["properties"]["password"]["pattern"] = r"^[^\u0000-\u001f\u007f]*$"
    oauth2 = methods["oauth2"]["properties"]
    oauth2["token_url"] |= {"pattern": _URL, "maxLength": URL_MAX}
    for name in ("client_id", "client_secret", "scope", "audience"):
        oauth2[name]["pattern"] = r"^[\u0020-\u007e]+$"
    given = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in methods]
    auth["anyOf"] = [{"type": "null"}, {"oneOf": given}]


def _narrow_tls(tls: Schema) -> None:
    fields = tls["properties"]
    for name in ("ca", "certificate"):
        fields[name]["pattern"] = "-----BEGIN CERTIFICATE-----"
    fields["key"]["pattern"] = r"-----BEGIN [A-Z ]*PRIVATE KEY-----|^\*\*\*$"
    tls["allOf"] = [
        {"if": _is_text(one), "then": _is_text(other)}
        for one, other in (("certificate", "key"), ("key", "certificate"))
    ]


def _is_text(name: str) -> Schema:
    return {"type": "object", "required": [name], "properties": {name: {"type": "string"}}}


def _narrow_retry(retry: Schema, policies: Mapping[str, RetryPolicy]) -> None:
    retry["properties"]["policy"]["enum"] = [*policies, None]
    fixed = [name for name, policy in policies.items() if policy.schedule_s is not None]
    absent = {
        "properties": {
            **{name: {"type": "null"} for name in (*_FORMULA, "growth")},
            "adaptive": {"enum": [False, None]},
        }
    }
    one_kind = {
        "if": {"properties": {"schedule_s": {"type": "array"}}, "required": ["schedule_s"]},
        "then": absent,
    }
    by_status = retry["properties"]["by_status"]
    by_status["propertyNames"] = {"pattern": _STATUS}
    by_status["additionalProperties"]["allOf"] = [one_kind]
    retry["allOf"] = [
        one_kind,
        *(
            {"if": {"properties": {"policy": {"const": n}}, "required": ["policy"]}, "then": absent}
            for n in fixed
        ),
    ]


def _header_name() -> str:
    """Return a pattern for headers that Leveret does not set; patterns have no flag to ignore case."""
    ours = "|".join(map(_any_case, sorted(OUR_HEADERS)))
    prefixes = "|".join(map(_any_case, OUR_PREFIXES))
    return rf"^(?!(?:{ours})$|{prefixes})[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,128}}$"


def _any_case(text: str) -> str:
    return "".join(f"[{char.upper()}{char}]" if char.isalpha() else char for char in text)
