"""The JSON Schema agrees with the parser, within the limits of a schema."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.errors import ConfigError
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.entry import OUR_HEADERS, SubscriptionEntry
from tests.support.builders.entries import CONTRACT
from tests.support.builders.subscriptions import RULES, secret_of
from tests.support.servers.certificates import Authority

SCHEMA = subscriptions_schema(POLICIES)
JUDGE = Draft7Validator(SCHEMA)

with TemporaryDirectory() as folder:
    AUTHORITY = Authority(Path(folder))
PAIR = AUTHORITY.pair("leveret")
OAUTH2 = {"token_url": "https://id.example/t", "client_id": "app", "client_secret": "x y"}

#: of each field, right values and wrong ones
RIGHT: dict[str, list[Any]] = {
    "tenant": ["acme", "a.b:c@d-1", None],
    "name": ["shop", "Zoë 😀", "a b", "x" * 128, None],
    "url": [
        "https://a.example",
        "HTTPS://A.example:8443/x?y=%20z",
        "https://[2606:4700::1]/",
        "https://ä.example/",
    ],
    "events": [["#"], ["order.*", "a.#.b"], ["*"], ["x" * 255]],
    "secrets": [
        [],
        None,
        [secret_of("a"), secret_of("b")],
        ["whsec_" + "A" * 32],
        ["whsec_" + "A" * 35 + "="],
        ["whsec_" + "A" * 86],
        ["whsec_" + "A" * 86 + "=="],
        ["0123456789abcdefghij 123"],
        ["é" * 12],
        ["x" * 64],
    ],
    "retry": [
        None,
        {},
        *({"policy": name} for name in POLICIES),
        {"policy": "linear", "max_attempts": 3, "jitter": 0, "base_s": 0.5, "multiplier": 1, "max_s": None},
        {"schedule_s": [1, 2.5], "base_s": None, "max_age_s": 60},
        {"policy": "standard-webhooks", "max_attempts": 4, "jitter": 1},
        {"schedule_s": [1], "growth": None, "adaptive": False},
        {"growth": "linear", "jitter_kind": "full", "adaptive": True, "budget": 5, "disable_after_s": 0},
        {"by_status": {"429": {"base_s": 30}, "5XX": {"schedule_s": [1]}, "503": None}},
        {"policy": "standard-webhooks", "by_status": {"429": {"base_s": 30, "jitter_kind": "decorrelated"}}},
    ],
    "on_status": [{"404": "park", "5xx": "retry", "3XX": "drop", "410": "disable"}, {"404": None}, {}, None],
    "breaker": [
        {"failures": 0},
        {"failures": None},
        {},
        None,
        {"cooldown_s": 0.01, "cooldown_max_s": 86400},
        {"failure_ratio": 0.5, "window_s": 3600, "min_requests": 1},
    ],
    "concurrency": [1, 10_000, None],
    "rate_per_s": [0.01, 100, 100_000, None],
    "burst": [1, 100_000, None],
    "timeout_s": [1, 30, 1.5, None],
    "headers": [{"x-api-version": "2"}, {"X_A": "a b\tc"}, {"x": None}, {}, None, {"hosting": "x"}],
    "enabled": [True, False, None],
    "send_trace": [True, False, None],
    "auth": [
        None,
        {"bearer": "abc.DEF-_~+/=="},
        {"bearer": "a", "basic": None},
        {"basic": {"username": "zoë", "password": "p:w "}},
        {"basic": {"username": "u", "password": ""}},
        {"bearer": "***"},
        {"basic": {"username": "u", "password": "***"}},
        {"oauth2": OAUTH2},
        {"oauth2": OAUTH2 | {"scope": "a b", "audience": None, "client_auth": "post"}},
    ],
    "tls": [
        None,
        {},
        {"ca": AUTHORITY.pem},
        {"ca": None, "certificate": PAIR.certificate, "key": PAIR.key},
        {"certificate": None, "key": None},
        {"certificate": PAIR.certificate, "key": "***"},
    ],
}
WRONG: dict[str, list[Any]] = {
    "tenant": ["", "a b", "é", "x" * 129, [], 5],
    "name": ["", " a", "a ", "a\nb", "x" * 129, {}, 5],
    "url": [
        None,
        "",
        "a.example",
        "ftp://a.example/",
        "https://",
        "https:///x",
        "https://a b/",
        "https://a.example/#x",
        "https://u:p@a.example/",
        "https://a.example/\\x",
        "https://a.example:x/",
        "https://a.example/é",
        "https://a.example/" + "x" * 2048,
        5,
        ["https://a.example/"],
    ],
    "events": [None, [], "#", ["a..b"], [""], ["a-b"], ["x" * 256], [None], [5], {}],
    "secrets": [
        "whsec_x",
        ["whsec_" + "A" * 31],
        ["whsec_" + "A" * 33],
        ["whsec_" + "A" * 87],
        ["whsec_" + "A" * 32 + "=="],
        ["whsec_%"],
        ["hwsec_" + "A" * 32],
        ["whpk_" + "A" * 43 + "="],
        ["whsk_" + "A" * 10],
        ["x" * 23],
        ["x" * 65],
        [" " + "x" * 30],
        ["x" * 20 + "\n" + "x" * 20],
        [secret_of("a"), secret_of("a")],
        [secret_of(str(n)) for n in range(11)],
    ],
    "retry": [
        [],
        "default",
        {"policy": "no-such"},
        {"polcy": "default"},
        {"growth": "wild"},
        {"jitter_kind": None, "adaptive": "maybe"},
        {"budget": 0},
        {"by_status": {"200": {"base_s": 1}}},
        {"by_status": {"429": {"policy": "default"}}},
        {"by_status": {"429": {"schedule_s": [1], "base_s": 1}}},
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"jitter": 2},
        {"base_s": -1},
        {"schedule_s": []},
        {"schedule_s": [-1]},
        {"schedule_s": [None]},
        {"schedule_s": [1], "base_s": 1},
        {"policy": "standard-webhooks", "max_s": 1},
        {"policy": "standard-webhooks", "growth": "linear"},
        {"schedule_s": [1], "growth": "linear"},
        {"schedule_s": [1], "adaptive": True},
        {"max_age_s": 0},
    ],
    "on_status": [
        {"200": "park"},
        {"404": "parked"},
        {"6xx": "park"},
        {"x": "park"},
        ["404"],
        {"4040": "park"},
    ],
    "breaker": [
        {"failures": -1},
        {"failure": 1},
        5,
        {"cooldown_s": 0},
        {"failure_ratio": 1.1},
        {"window_s": 0},
    ],
    "concurrency": [0, 10_001, 1.5, [], "many"],
    "rate_per_s": [0, -1, 100_001, "fast", []],
    "burst": [0, 1.5, 100_001, "all", []],
    "timeout_s": [0.5, 31, "soon", {}],
    "headers": [
        *({name: "x"} for name in sorted(OUR_HEADERS)),
        {"Webhook-Id": "x"},
        {"proxy-x": "x"},
        {"HOST": "x"},
        {"a b": "x"},
        {"é": "x"},
        {"x": "é"},
        {"x": " y"},
        {"x": ""},
        {"x": "a\r\nb"},
        {"x": "y" * 4097},
        {"x": 5},
        [],
        {f"x-{n}": "y" for n in range(33)},
    ],
    "enabled": ["maybe", [], 2],
    "send_trace": ["perhaps", [], 2],
    "auth": [
        {},
        {"bearer": None},
        {"bearer": "a", "basic": {"username": "u", "password": "p"}},
        {"bearer": "Bearer a"},
        {"bearer": ""},
        {"bearer": "****"},
        {"basic": {"username": "a:b", "password": "p"}},
        {"basic": {"username": "a"}},
        {"basic": {"username": "a", "password": "b\nc"}},
        {"oauth2": OAUTH2 | {"token_url": "ftp://id.example/"}},
        {"oauth2": OAUTH2 | {"client_id": "é"}},
        {"oauth2": OAUTH2 | {"client_secret": ""}},
        {"oauth2": OAUTH2 | {"client_auth": "none"}},
        {"digest": {}},
        [],
        "Bearer a",
    ],
    "tls": [
        {"ca": "nonsense"},
        {"certificate": PAIR.certificate},
        {"certificate": PAIR.certificate, "key": None},
        {"key": PAIR.key},
        {"certificate": "x", "key": PAIR.key},
        {"certificate": PAIR.certificate, "key": "x"},
        {"key": "***"},
        {"verify": False},
        [],
    ],
}


def parses(document: object) -> bool:
    """Return whether the parser accepts *document*."""
    try:
        parse_subscriptions(json.dumps(document, ensure_ascii=False), "f", RULES)
    except ConfigError:
        return False
    return True


def file(**fields: object) -> dict[str, object]:
    """Return a file with one entry."""
    return {"subscriptions": [{"url": "https://a.example/", "events": ["#"], **fields}]}


def test_it_is_a_schema_and_knows_every_field() -> None:
    """The document is a JSON Schema with a description of each field."""
    Draft7Validator.check_schema(SCHEMA)
    fields = SCHEMA["properties"]["subscriptions"]["items"]["properties"]

    assert fields.keys() == SubscriptionEntry.model_fields.keys() == RIGHT.keys() == WRONG.keys()
    assert all(field["description"] for field in fields.values())


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in RIGHT.items() for v in values])
def test_both_take_right_values(field: str, value: object) -> None:
    """The schema accepts every entry that the parser accepts."""
    document = file(**{field: value})

    assert parses(document)
    assert [error.message for error in JUDGE.iter_errors(document)] == []


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in WRONG.items() for v in values])
def test_both_refuse_wrong_values(field: str, value: object) -> None:
    """The schema refuses every entry that the parser refuses."""
    document = file(**{field: value})

    assert not parses(document)
    assert not JUDGE.is_valid(document)


MIXED = st.fixed_dictionaries(
    {name: st.sampled_from(RIGHT[name] + WRONG[name]) for name in ("url", "events")},
    optional={
        name: st.sampled_from(RIGHT[name] + WRONG[name]) for name in RIGHT if name not in ("url", "events")
    },
)


@given(MIXED, st.sampled_from([{}, {"tennant": "x"}]))
def test_both_judge_any_mixture_alike(fields: dict[str, object], more: dict[str, object]) -> None:
    """Schema and parser agree about any mixture of fields, including unknown keys."""
    document = {"subscriptions": [fields | more]}

    assert parses(document) == JUDGE.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"subscriptions": None}, {"subscriptions": {}}, {"subscriptions": ["x"]}, {"subs": []}],
)
def test_both_refuse_another_shape(document: object) -> None:
    """Schema and parser refuse another top level."""
    assert not parses(document)
    assert not JUDGE.is_valid(document)


def test_both_take_the_contracts_file() -> None:
    """The documented example is valid in an editor, too."""
    assert JUDGE.is_valid(yaml.safe_load(CONTRACT))
    assert JUDGE.is_valid({"subscriptions": [], "version": 1})
    assert parses({"subscriptions": [], "version": 1})
