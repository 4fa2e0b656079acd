"""The address rule against right values that were written down before it."""

from __future__ import annotations

import json

import pytest

from consumer.core.endpoint.egress import EgressRule, parse_rule, refuse_address, refuse_url
from consumer.core.errors import ConfigError
from tests.support.data import DATA

CASES = json.loads((DATA / "addresses.json").read_text())
STRICT = EgressRule()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["address"])
def test_only_public_addresses_may_be_reached(case: dict[str, object]) -> None:
    """SW-45, faults 20, 22: each listed address is reachable or not, over TLS and the default rule."""
    assert (refuse_address(str(case["address"]), STRICT, tls=True) is None) is case["allowed"]


def test_a_zone_does_not_hide_a_link_local_address() -> None:
    """Fault 22: every address with a zone is refused."""
    assert refuse_address("fe80::1%eth0", STRICT, tls=True) is not None


def test_an_allowed_network_is_reachable_over_plain_http_too() -> None:
    """Outside contract: ``LEVERET_EGRESS__ALLOW`` lets its networks through, also over http."""
    rule = parse_rule(["127.0.0.0/8", "fd00:1::/32"])

    assert refuse_address("127.0.0.1", rule, tls=False) is None
    assert refuse_address("::ffff:127.0.0.1", rule, tls=False) is None
    assert refuse_address("fd00:1::7", rule, tls=False) is None
    assert refuse_address("10.0.0.1", rule, tls=True) is not None


def test_plain_http_to_a_public_address_needs_allow_http() -> None:
    """SW-43, outside contract: elsewhere only https, unless ``LEVERET_EGRESS__ALLOW_HTTP=true``."""
    assert refuse_address("1.1.1.1", STRICT, tls=False) == "plain http to 1.1.1.1 is not allowed"
    assert refuse_address("1.1.1.1", parse_rule(allow_http=True), tls=False) is None
    assert refuse_address("127.0.0.1", parse_rule(allow_http=True), tls=False) is not None


@pytest.mark.parametrize(
    "host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0", "a.0x7f", "1.2.3.4.5"]
)
def test_odd_spellings_of_an_address_are_refused(host: str) -> None:
    """Fault 21: a text that a resolver may read as an IPv4 address is refused before any look-up."""
    assert refuse_url("https", host, STRICT) is not None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "hook.example", "1e100.net", "4.example.", "::1", "0xcafe.example"]
)
def test_names_and_plain_addresses_pass_to_the_resolver(host: str) -> None:
    """Hosts that only resemble numbers are judged by their addresses."""
    assert refuse_url("https", host, STRICT) is None


def test_only_http_and_https_are_spoken() -> None:
    """Fault 26: other schemes are refused; http too when nothing could allow it."""
    assert refuse_url("ftp", "hook.example", STRICT) is not None
    assert refuse_url("http", "hook.example", STRICT) is not None
    assert refuse_url("http", "hook.example", parse_rule(["10.0.0.0/8"])) is None


def test_a_network_may_be_allowed_at_one_port() -> None:
    """``NETWORK:PORT`` lets that port through and no other."""
    rule = parse_rule(["10.0.0.0/8:8443", "fd00::/8:443"])

    assert refuse_address("10.1.2.3", rule, tls=False, port=8443) is None
    assert refuse_address("10.1.2.3", rule, tls=False, port=443) is not None
    assert refuse_address("10.1.2.3", rule, tls=False) is not None
    assert refuse_address("fd00::1", rule, tls=True, port=443) is None
    assert [str(allowed) for allowed in rule.allow] == ["10.0.0.0/8:8443", "fd00::/8:443"]


def test_denied_networks_stay_denied() -> None:
    """``deny`` goes before ``allow`` and before the public internet."""
    rule = parse_rule(["10.0.0.0/8"], deny=["10.9.0.0/16", "93.184.216.34/32"])

    assert refuse_address("10.1.0.1", rule, tls=True) is None
    assert refuse_address("10.9.0.1", rule, tls=True) == "address 10.9.0.1 is denied"
    assert refuse_address("::ffff:93.184.216.34", rule, tls=True) == "address 93.184.216.34 is denied"


@pytest.mark.parametrize(
    ("outer", "network"),
    [
        ("64:ff9b::7f00:1", "64:ff9b::/96"),
        ("2002:7f00:1::", "2002::/16"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "2001::/32"),
        ("::127.0.0.1", "::/96"),
        ("::ffff:0:127.0.0.1", "::ffff:0:0:0/96"),
        ("2606:4700::5efe:127.0.0.1", "2606:4700::/32"),
        ("2606:4700::200:5efe:127.0.0.1", "2606:4700::/32"),
    ],
)
def test_an_allowed_translator_does_not_open_the_addresses_behind_it(outer: str, network: str) -> None:
    """Fault 22: the IPv4 address inside is judged too; it counts when both are allowed."""
    assert refuse_address(outer, STRICT, tls=True) is not None
    assert "127.0.0.1" in str(refuse_address(outer, parse_rule([network]), tls=True))
    assert refuse_address(outer, parse_rule([network, "127.0.0.0/8"]), tls=True) is None


def test_loopback_and_unspecified_hold_no_other_address() -> None:
    """Fault 22: ``::1`` is judged as itself, although ``::/96`` contains it."""
    assert refuse_address("::1", parse_rule(["::1/128"]), tls=True) is None
    assert refuse_address("::", parse_rule(["::/128"]), tls=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0/8:0",
        "10.0.0.0/8:65536",
        "10.0.0.0/8:x",
        "10.0.0.0/8:",
        "10.0.0.1/8",
        "nonsense",
        "10.0.0.0/33",
        "",
    ],
)
def test_a_bad_network_is_a_config_error_that_names_it(text: str) -> None:
    """S2-1: the error names the key and the faulty text."""
    with pytest.raises(ConfigError, match=r"egress\.allow"):
        parse_rule([text])


@pytest.mark.parametrize(
    ("network", "address", "inside"),
    [
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "192.168.0.1", False),
        ("::ffff:10.1.2.3/128", "10.1.2.3", True),
        ("::ffff:0:0/96", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("::/0", "10.1.2.3", False),
        ("::/0", "::ffff:10.1.2.3", False),
    ],
)
def test_a_mapped_network_is_that_of_ipv4(network: str, address: str, inside: bool) -> None:
    """Fault 22: allowed, with a port or without, or denied: a network matches however it is written."""
    allowing, at_port = parse_rule([network]), parse_rule([f"{network}:8443"])
    denying = parse_rule(["0.0.0.0/0", "::/0"], deny=[network])

    assert (refuse_address(address, allowing, tls=True, port=8443) is None) is inside
    assert (refuse_address(address, at_port, tls=True, port=8443) is None) is inside
    assert refuse_address(address, at_port, tls=True, port=443) is not None
    assert ("denied" in str(refuse_address(address, denying, tls=True))) is inside
