"""The address rule against right values that were written down before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumer.core.egress import EgressRule, parse_rule, refuse_address, refuse_url
from consumer.core.errors import ConfigError

CASES = json.loads((Path(__file__).parent.parent / "data" / "addresses.json").read_text())
STRICT = EgressRule()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["address"])
def test_only_public_addresses_may_be_reached(case: dict[str, object]) -> None:
    """FAULTS 20, 22: each listed address is reachable or not, over TLS and the default rule."""
    assert (refuse_address(str(case["address"]), STRICT, tls=True) is None) is case["allowed"]


def test_a_zone_does_not_hide_a_link_local_address() -> None:
    """FAULTS 22: an address with a zone is refused, whatever it is."""
    assert refuse_address("fe80::1%eth0", STRICT, tls=True) is not None


def test_an_allowed_network_is_reachable_over_plain_http_too() -> None:
    """Outside contract: ``LEVERET_EGRESS__ALLOW`` lets its networks through, also over http."""
    rule = parse_rule(["127.0.0.0/8", "fd00:1::/32"])

    assert refuse_address("127.0.0.1", rule, tls=False) is None
    assert refuse_address("::ffff:127.0.0.1", rule, tls=False) is None
    assert refuse_address("fd00:1::7", rule, tls=False) is None
    assert refuse_address("10.0.0.1", rule, tls=True) is not None


def test_plain_http_to_a_public_address_needs_allow_http() -> None:
    """Outside contract: elsewhere only https, unless ``LEVERET_EGRESS__ALLOW_HTTP=true``."""
    assert refuse_address("1.1.1.1", STRICT, tls=False) == "plain http to 1.1.1.1 is not allowed"
    assert refuse_address("1.1.1.1", parse_rule(allow_http=True), tls=False) is None
    assert refuse_address("127.0.0.1", parse_rule(allow_http=True), tls=False) is not None


@pytest.mark.parametrize(
    "host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0", "a.0x7f", "1.2.3.4.5"]
)
def test_odd_spellings_of_an_address_are_refused(host: str) -> None:
    """FAULTS 21: what a resolver may read as an IPv4 address is refused before any look-up."""
    assert refuse_url("https", host, STRICT) is not None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "hook.example", "1e100.net", "4.example.", "::1", "0xcafe.example"]
)
def test_names_and_plain_addresses_pass_to_the_resolver(host: str) -> None:
    """Hosts that only look a little like numbers are judged by what they resolve to."""
    assert refuse_url("https", host, STRICT) is None


def test_only_http_and_https_are_spoken() -> None:
    """FAULTS 26: other schemes are refused; http too when nothing could allow it."""
    assert refuse_url("ftp", "hook.example", STRICT) is not None
    assert refuse_url("http", "hook.example", STRICT) is not None
    assert refuse_url("http", "hook.example", parse_rule(["10.0.0.0/8"])) is None


@pytest.mark.parametrize("text", ["10.0.0.1/8", "nonsense", "10.0.0.0/33", ""])
def test_a_bad_network_is_a_config_error_that_names_it(text: str) -> None:
    """S2-1: the error names the key and the faulty text."""
    with pytest.raises(ConfigError, match=r"egress\.allow"):
        parse_rule([text])
