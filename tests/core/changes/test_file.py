"""The subscriptions file: its results, and the description of every fault."""

from __future__ import annotations

import base64
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumer.core.changes.file import TEXT_MAX, parse_subscriptions
from consumer.core.changes.merge import StoredEntry
from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.errors import ConfigError
from consumer.core.retry.outcomes import StatusRule
from consumer.core.retry.policy import POLICIES, planned_delays_s
from consumer.core.subscription.policy import drop_ineffective
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription
from consumer.core.webhook.signing import HmacKey
from tests.support.builders.entries import CONTRACT, RULES, SECRET, build, entry, faults, parse


def test_the_contract_file_becomes_what_it_says() -> None:
    """Each field of the documented example reaches the subscription."""
    (only,) = parse(CONTRACT).entries

    assert only.build(RULES) == Subscription(
        id="sub_015283ee3ad87156",
        tenant="acme",
        name="shop",
        url="https://hooks.acme.example/orders",
        events=("order.*", "invoice.paid"),
        keys=(HmacKey(base64.b64decode(SECRET.removeprefix("whsec_"))),),
        retry=POLICIES["default"],
        breaker=BreakerPolicy(failures=5, cooldown_s=30.0),
        on_status={"404": StatusRule.PARK, "410": StatusRule.DISABLE},
        concurrency=16,
        timeout_s=15.0,
        headers=(("x-api-version", "2"),),
        enabled=True,
    )


def test_omitted_fields_follow_the_settings() -> None:
    """Only url and events are required; the settings supply the rest."""
    rules = SubscriptionRules(
        retry=POLICIES["linear"], breaker=BreakerPolicy(failures=9), concurrency=3, timeout_s=7.0
    )

    built = build(rules)

    assert (built.tenant, built.retry, built.breaker.failures) == ("default", POLICIES["linear"], 9)
    assert (built.concurrency, built.timeout_s, built.keys, built.headers) == (3, 7.0, (), ())
    assert built.name.startswith("a.example-")
    assert build(rules, retry=None, breaker={"cooldown_s": 900}).breaker == BreakerPolicy(
        failures=9, cooldown_s=900.0, cooldown_max_s=900.0
    )


@pytest.mark.parametrize(
    ("retry", "delays", "attempts", "jitter"),
    [
        ({"policy": "aggressive"}, (0.5, 1.0, 2.0), 4, 0.1),
        ({"policy": "aggressive", "max_attempts": 2}, (0.5,), 2, 0.1),
        ({"base_s": 1, "multiplier": 3, "max_s": 8, "max_attempts": 4}, (1.0, 3.0, 8.0), 4, 0.1),
        ({"schedule_s": [5, 60], "jitter": 0}, (5.0, 60.0), 3, 0.0),
        ({"schedule_s": [5], "max_attempts": 4}, (5.0, 5.0, 5.0), 4, 0.1),
        ({}, (1.0, 2.0, 4.0, 8.0), 5, 0.1),
    ],
)
def test_retry_is_a_policy_changed_by_fields(
    retry: dict[str, object], delays: tuple[float, ...], attempts: int, jitter: float
) -> None:
    """S0-4, S4-2: each subscription has its own retry configuration; N attempts have N-1 delays."""
    policy = build(retry=retry).retry

    assert planned_delays_s(policy) == delays
    assert (policy.max_attempts, policy.jitter_ratio) == (attempts, jitter)


@pytest.mark.parametrize(
    ("retry", "delays", "jitter"),
    [
        ({"base_s": 2}, (2.0, 4.0, 8.0, 16.0), 0.1),
        ({"max_s": 3, "max_attempts": 3, "jitter": 0}, (1.0, 2.0), 0.0),
        ({"max_attempts": 3}, (5.0, 300.0), 0.2),
    ],
)
def test_a_formula_needs_no_policy_of_the_settings(
    retry: dict[str, object], delays: tuple[float, ...], jitter: float
) -> None:
    """S0-4: an entry with its own formula is unaffected if the settings change to a fixed schedule."""
    policy = build(SubscriptionRules(retry=POLICIES["standard-webhooks"]), retry=retry).retry

    assert planned_delays_s(policy) == delays
    assert policy.jitter_ratio == jitter


def test_a_status_takes_the_policy_changed_by_its_own_fields() -> None:
    """S4-2: a status keeps the policy's other fields; a bare YAML number and 5XX are accepted."""
    retry = {"policy": "default", "by_status": {429: {"base_s": 30}, "5XX": {"growth": "linear"}}}

    policy = build(retry=retry).retry

    own = dict(policy.by_status)
    assert planned_delays_s(own["429"]) == (30.0, 60.0, 60.0, 60.0)
    assert planned_delays_s(own["5xx"]) == (1.0, 2.0, 3.0, 4.0)
    assert planned_delays_s(policy) == (1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"retry": {"by_status": {"200": {"base_s": 1}}}}, "retry.by_status: '200' is not a status from 300"),
        ({"on_status": {"200": "park"}}, "on_status: '200' is not a status from 300 to 599"),
        ({"retry": {"policy": "nope"}}, "retry.policy: 'nope' is not one of adr, "),
        ({"retry": {"policy": "standard-webhooks", "base_s": 2}}, "retry: base_s, multiplier and max_s have"),
        (
            {"retry": {"schedule_s": [1], "growth": "linear"}},
            "retry: growth has no effect beside schedule_s; remove one of them",
        ),
        (
            {"retry": {"schedule_s": [1], "adaptive": True}},
            "retry: adaptive has no effect beside schedule_s; remove one of them",
        ),
        (
            {"retry": {"policy": "standard-webhooks", "growth": "exponential"}},
            "retry.growth: has no effect on 'standard-webhooks', a fixed schedule; remove it, or name",
        ),
        (
            {"retry": {"policy": "standard-webhooks", "adaptive": True}},
            "retry.adaptive: has no effect on 'standard-webhooks', a fixed schedule",
        ),
        (
            {"retry": {"schedule_s": [1], "by_status": {"429": {"schedule_s": [2], "growth": "linear"}}}},
            "retry.by_status.429: growth has no effect beside schedule_s",
        ),
        (
            {"retry": {"schedule_s": [1], "jitter_kind": "decorrelated"}},
            "retry.jitter_kind: decorrelated waits follow no schedule",
        ),
    ],
)
def test_a_fault_of_a_table_names_its_key_once(fields: dict[str, object], expected: str) -> None:
    """S4-2, S0-4: an error names the key once, at its place."""
    (line,) = faults(entry(**fields))

    assert line.startswith(f"f:1: subscriptions[0].{expected}")


def test_a_growth_for_one_status_begins_from_the_formula() -> None:
    """Beside a schedule, by_status accepts a formula of its own, by growth or by base_s."""
    retry = {"policy": "standard-webhooks", "adaptive": False, "by_status": {"5xx": {"growth": "linear"}}}

    own = dict(build(retry=retry).retry.by_status)

    assert planned_delays_s(own["5xx"])[:3] == (1.0, 2.0, 3.0)


def test_stored_subscriptions_that_are_refused_now_go_on() -> None:
    """An upgrade neither locks nor damages a stored subscription with an ineffective growth."""
    named = {"policy": "standard-webhooks", "growth": "linear", "adaptive": True}
    values = {"url": "https://a.example/", "events": ["#"], "secrets": [SECRET], "retry": named}
    kept = StoredEntry.model_validate(values)
    table = {
        "schedule_s": [1],
        "growth": "linear",
        "by_status": {"429": {"schedule_s": [2], "adaptive": True}},
    }

    assert kept.build(RULES).retry == POLICIES["standard-webhooks"]
    assert drop_ineffective(table) == {"schedule_s": [1], "by_status": {"429": {"schedule_s": [2]}}}
    assert drop_ineffective({"growth": "linear", "base_s": 2}) == {"growth": "linear", "base_s": 2}


def test_rate_and_ratio_are_taken_over() -> None:
    """Rate and failure ratio of the entry reach the subscription."""
    built = build(rate_per_s=50, burst=5, breaker={"failure_ratio": 0.5, "window_s": 30, "min_requests": 10})

    assert build(timeout_s=30, breaker={"probe_timeout_s": 5}).breaker.probe_timeout_s == 35.0
    assert (built.rate_per_s, built.burst) == (50, 5)
    breaker = built.breaker
    assert (breaker.failure_ratio, breaker.window_s, breaker.min_requests) == (0.5, 30, 10)


def test_a_formula_on_a_named_schedule_is_refused_with_the_remedy() -> None:
    """S0-4: a field without effect is an error that names the remedy."""
    (line,) = faults(entry(retry={"policy": "standard-webhooks", "base_s": 2}))

    assert "have no effect on 'standard-webhooks'" in line
    assert line.endswith("name another policy or give schedule_s")


def test_bare_status_numbers_are_statuses() -> None:
    """YAML reads a bare 404 as a number; it means the same status."""
    (only,) = parse(CONTRACT.replace('{"404": park, "410": disable}', "{404: park, 5xx: drop}")).entries

    assert only.on_status == {"404": StatusRule.PARK, "5xx": StatusRule.DROP}


def test_all_faults_are_reported_at_once_with_line_and_field() -> None:
    """All faults are reported at once, sorted by line, with line and field, and without a secret."""
    text = """subscriptions:
  - tenant: "a b"
    url: ftp://user:hush@x/
    events: order.*
    secret: hush
    secrets: [hush, 5]
    retry: {base: 1}
  - url: https://10.0.0.1/
    events: ["a..b"]
    timeout_s: 31
    headers:
      authorization: 5
    on_status: {200: park}
    concurrency: 0
    enabled: perhaps
  - url: http://example.com/
    events: ["#"]
    retry: {policy: nope}
  - 5
  - url: https://example.com/
    url: https://example.com/2
    events: []
"""
    lines = faults(text)

    assert [" ".join(line.split(" ")[:2]) for line in lines] == [
        "f:2: subscriptions[0].tenant:",
        "f:3: subscriptions[0].url:",
        "f:4: subscriptions[0].events:",
        "f:5: subscriptions[0].secret:",
        "f:6: subscriptions[0].secrets[1]:",
        "f:7: subscriptions[0].retry.base:",
        "f:8: subscriptions[1].url:",
        "f:9: subscriptions[1].events:",
        "f:10: subscriptions[1].timeout_s:",
        "f:12: subscriptions[1].headers.authorization:",
        "f:13: subscriptions[1].on_status:",
        "f:14: subscriptions[1].concurrency:",
        "f:15: subscriptions[1].enabled:",
        "f:16: subscriptions[2].url:",
        "f:18: subscriptions[2].retry.policy:",
        "f:19: subscriptions[3]:",
        "f:21: subscriptions[4].url:",
        "f:22: subscriptions[4].events:",
    ]
    assert "hush" not in "".join(lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "f:1: must begin with `subscriptions:` and a list"),
        ("- url: x", "f:1: must begin with `subscriptions:` and a list"),
        ("subscriptions: 5", "f:1: subscriptions: must be a list; begin each entry with `- `"),
        (
            "subscriptions: []\nsubscription: []",
            "f:2: subscription: no such key; the top level has only `subscriptions`",
        ),
        ("subscriptions:\n  - a: [", "f:3: is not YAML: "),
        ("subscriptions:\n - &a [*a]", "f:1: is nested too deeply; a subscription needs three levels"),
        ("a: \x01", "f:1: is not YAML: it contains characters that YAML does not allow"),
        ("[" * 5000, "f:1: "),
        ("a: 1\n---\nb: 2", "f:2: is not YAML: "),
        ("subscriptions: !!python/name:os.system []", "f:1: is not YAML: a tag "),
        ("subscriptions: [!!python/object/apply:os.system x]", "f:1: is not YAML: "),
    ],
)
def test_an_invalid_subscriptions_file_is_reported_with_its_line(text: str, line: str) -> None:
    """Broken YAML is reported with its line, and no tag in it is executed."""
    assert faults(text)[0].startswith(line)


def test_nested_aliases_do_not_fill_the_memory() -> None:
    """Nested aliases are refused before they are expanded."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    bomb = "a0: &a0 x\n" + "\n".join(levels)

    tracemalloc.start()
    assert "its aliases repeat more than 10000 values" in faults(bomb)[0]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 * 1024 * 1024  # 770 MB, once


def test_an_alias_is_as_good_as_its_anchor() -> None:
    """Entries may share a value by an alias."""
    text = "subscriptions:\n- {url: 'https://a.example/1', events: &e ['order.*']}\n"
    text += "".join(f"- {{url: 'https://a.example/{n}', events: *e}}\n" for n in range(2, 500))

    assert {entry.events for entry in parse_subscriptions(text, "f", RULES).entries} == {("order.*",)}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("!!binary aGVsbG8=", "a tag that no subscription needs"),
        ("!!set {a}", "a tag that no subscription needs"),
        ("!!omap [a: 1]", "a tag that no subscription needs"),
        ("!!pairs [a: 1]", "a tag that no subscription needs"),
        ("!own x", "a tag that no subscription needs"),
        ("!!timestamp 2024-01-01x" + "0" * 99, "is not"),
        ("1" + ":00" * 100_000, "a number of more than 64 characters"),
        ("0x" + "f" * 100, "a number of more than 64 characters"),
        ("1." + "0" * 100, "a number of more than 64 characters"),
        ("[" * 40 + "]" * 40, "is nested too deeply"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_unknown_fields_are_refused(value: str, fault: str) -> None:
    """Fault 86: other tags, numbers that take quadratic time, and deep nesting are refused."""
    assert fault in faults(f"subscriptions:\n- note: {value}\n")[0]


def test_a_file_beyond_any_use_is_refused() -> None:
    """Fault 86: a file that is too large is refused before it is parsed."""
    assert faults("#" * (TEXT_MAX + 1))[0].startswith(f"f:1: has more than {TEXT_MAX} characters")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
FIELDS = st.sampled_from(
    [
        *("tenant", "name", "url", "events", "secrets", "retry", "on_status", "breaker", "concurrency"),
        *("timeout_s", "headers", "enabled", "auth", "tls", "send_trace"),
    ]
)


@example({"retry": {"a\n\x1b[31m": False}})
@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_any_values_are_taken_or_refused_by_line(fields: dict[str, object]) -> None:
    """Any file is accepted or refused, and each fault is one line."""
    try:
        text = entry(**fields)
        parsed = parse(text)
    except ConfigError as refused:
        faults = str(refused).split("\n")
    else:
        assert parsed.entries[0].build(RULES).url.startswith("https://")
        return
    assert all(line.startswith("f:1: ") for line in faults)


def test_a_thousand_subscriptions_are_read_in_a_moment() -> None:
    """Reading and checking 1,000 subscriptions takes a small part of the second that `apply` may take."""
    text = "subscriptions:\n" + "".join(
        f'  - tenant: t{n % 10}\n    name: n{n}\n    url: https://h{n}.example/x\n    events: ["order.*"]\n'
        for n in range(1000)
    )

    began = time.process_time()
    parsed = parse(text)

    assert len(parsed.entries) == 1000
    assert time.process_time() - began < 4.0  # with coverage, on a core that is shared
