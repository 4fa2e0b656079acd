"""Headers, secrets and URLs in a subscriptions file: accepted and refused values."""

from __future__ import annotations

import base64
import json

import pytest

from consumer.core.endpoint.egress import parse_rule
from consumer.core.subscription.entry import HEADER_VALUE_MAX
from consumer.core.subscription.rules import SubscriptionRules
from tests.support.builders.entries import SECRET, build, entry, faults, parse


@pytest.mark.parametrize(
    "headers",
    [
        {"Webhook-Id": "x"},
        {"Host": "x"},
        {"content-length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Content-Type": "text/plain"},
        {"User-Agent": "x"},
        {"a b": "x"},
        {"a:": "x"},
        {"ä": "x"},
        {"": "x"},
        {"a": "x\r\nb: y"},
        {"a": "x" * (HEADER_VALUE_MAX + 1)},
        {"a": ""},
        {"a": " x"},
        {"a": "é"},
        {"a": "x", "A": "y"},
        {f"h{n}": "x" for n in range(33)},
    ],
    ids=lambda headers: repr(headers)[:30],
)
def test_headers_that_would_break_the_request_are_refused(headers: dict[str, str]) -> None:
    """Fault 28: headers of Leveret or HTTP, odd names, line breaks and huge values are refused."""
    (line,) = faults(entry(headers=headers))

    assert line.startswith("f:1: subscriptions[0].headers: ")


def test_other_headers_are_kept_as_they_are() -> None:
    """Fault 28: a value of exactly the longest length, and credentials for the endpoint, are accepted."""
    value = "x" * HEADER_VALUE_MAX

    assert build(headers={"Authorization": "Bearer a b", "x-long": value}).headers == (
        ("Authorization", "Bearer a b"),
        ("x-long", value),
    )


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "whsec_%hush",
        "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvw==",
        "hush hush hush",
    ],
)
def test_unusable_secrets_are_refused_and_not_repeated(secret: str) -> None:
    """Fault 29, SW-09, SW-10: wrong lengths and base64, public keys and wrong public halves are refused."""
    (line,) = faults(entry(secrets=[secret]))

    assert line.startswith("f:1: subscriptions[0].secrets: ")
    assert secret.removeprefix("whsec_") not in line


@pytest.mark.parametrize("field", ["secrets", "headers", "url", "retry"])
def test_a_value_of_the_wrong_kind_is_not_repeated_where_it_may_be_secret(field: str) -> None:
    """Fault 29: a secret written as text instead of a list is not repeated in the error."""
    (line,) = faults(entry(**{field: "hush"}))

    assert line.startswith(f"f:1: subscriptions[0].{field}: must be ")
    assert "hush" not in line


def two(first: dict[str, object], second: dict[str, object]) -> str:
    """Return a file with two entries, each on its own line."""
    entries = [
        json.dumps({"url": f"https://{name}.example/", "events": ["#"], **fields})
        for name, fields in (("a", first), ("b", second))
    ]
    return "subscriptions: [\n" + ",\n".join(entries) + "]"


def test_a_secret_belongs_to_one_tenant() -> None:
    """Fault 29, SW-30: another tenant's secret is refused; the same tenant's secret gives a warning."""
    foreign = two({"tenant": "a", "name": "x", "secrets": [SECRET]}, {"tenant": "b", "secrets": [SECRET]})
    own = two({"name": "x", "secrets": [SECRET]}, {"secrets": [SECRET]})

    assert faults(foreign) == [
        "f:3: subscriptions[1].secrets: a/x has the same secret; give each endpoint its own"
    ]
    assert parse(own).warnings == (
        "f:3: subscriptions[1].secrets: default/x has the same secret; give each endpoint its own",
    )
    assert "is listed twice" in faults(entry(secrets=[SECRET, SECRET]))[0]


def test_a_tenant_has_one_subscription_per_url_and_name() -> None:
    """A second subscription for the same URL is refused, in every spelling."""
    same_url = two({"url": "https://h.example", "name": "x"}, {"url": "https://H.Example:443/", "name": "y"})
    same_name = two({"name": "x"}, {"name": "x"})
    others = two({"url": "https://h.example/", "tenant": "a"}, {"url": "https://h.example/", "tenant": "b"})

    assert faults(same_url) == [
        "f:3: subscriptions[1].url: tenant default already has this URL, as 'x'; merge the two"
    ]
    assert faults(same_name) == [
        "f:3: subscriptions[1].name: tenant default already has 'x'; choose another name"
    ]
    assert len(parse(others).entries) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/",
        "https://100.100.100.200/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "https://0177.0.0.1/",
        "https://0/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "http://hooks.example/",
    ],
)
def test_literal_addresses_that_are_not_public_are_refused(url: str) -> None:
    """Faults 20-22: a private literal address is refused at registration, and so is http:// by default."""
    (line,) = faults(entry(url=url))

    assert line.startswith("f:1: subscriptions[0].url: ")
    assert "egress.allow" in line


def test_http_is_taken_for_allowed_networks_and_judged_again_for_names() -> None:
    """LEVERET_EGRESS__ALLOW permits http:// for its networks, and ALLOW_HTTP permits it everywhere."""
    local = SubscriptionRules(egress=parse_rule(["127.0.0.0/8"]))
    anywhere = SubscriptionRules(egress=parse_rule(allow_http=True))

    assert build(local, url="http://127.0.0.1:9000/x").url == "http://127.0.0.1:9000/x"
    assert build(local, url="http://receiver:9000/x").url == "http://receiver:9000/x"
    assert "egress.allow" in faults(entry(url="http://8.8.8.8/"), local)[0]
    assert build(anywhere, url="http://8.8.8.8/").url == "http://8.8.8.8/"
    assert "egress.allow" in faults(entry(url="http://10.0.0.1/"), anywhere)[0]
