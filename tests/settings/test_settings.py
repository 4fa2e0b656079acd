"""Settings: precedence of the layers, and the description of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.retry.policy import POLICIES, planned_delays_s
from consumer.settings import Settings, load, load_settings
from tests.support.settings import faults
from topology.plan import TopologySpec


def test_the_defaults_are_those_of_the_contract() -> None:
    """The defaults equal the documented ones: folder, address, private broker, 37 rungs, 16 lanes."""
    settings = load_settings({})

    assert settings == Settings(home=Path(".leveret").absolute())
    assert Settings().home == Path(".leveret")
    assert (settings.listen_host, settings.listen_port) == ("127.0.0.1", 8080)
    assert settings.amqp_urls() == ()
    assert settings.topology_spec() == TopologySpec()
    assert len(settings.topology.rungs_s) == 37
    assert settings.subscription_rules().retry == POLICIES["default"]
    assert settings.subscription_rules().breaker == BreakerPolicy()
    assert settings.window(None) == 512
    assert (settings.breaker.failures, settings.breaker.cooldown_s) == (5, 30.0)


def test_the_process_environment_is_read_only_by_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the loader reads the environment; Settings() itself reads nothing."""
    monkeypatch.setenv("LEVERET_SENDING__TIMEOUT_S", "3")

    assert Settings().sending.timeout_s == 15.0
    assert load_settings().sending.timeout_s == 3.0


def test_each_layer_wins_over_the_one_below(tmp_path: Path) -> None:
    """Default < profile < preset < file < environment < option, field by field."""
    (tmp_path / "leveret.toml").write_text(
        'profile = "production"\npreset = "high-traffic"\n'
        "[breaker]\nfailures = 7\n[sending]\nconcurrency = 8\ntimeout_s = 4\n"
    )

    loaded = load(
        {"LEVERET_SENDING__CONCURRENCY": "9", "LEVERET_BREAKER": '{"probe_timeout_s": 12}'},
        {"topology": {"declare": False}},
    )

    settings = loaded.settings
    assert settings.retry.policy == "high-traffic"
    assert (settings.breaker.failures, settings.breaker.cooldown_s) == (7, 60.0)
    assert settings.breaker.probe_timeout_s == 12.0
    assert (settings.sending.concurrency, settings.sending.timeout_s) == (9, 4.0)
    assert not settings.topology.declare
    assert loaded.origin("retry.policy") == "preset high-traffic"
    assert loaded.origin("breaker.cooldown_s") == "preset high-traffic"
    assert loaded.origin("breaker.failures") == "file leveret.toml"
    assert loaded.origin("breaker.probe_timeout_s") == "env LEVERET_BREAKER"
    assert loaded.origin("sending.concurrency") == "env LEVERET_SENDING__CONCURRENCY"
    assert loaded.origin("topology.declare") == "option"
    assert loaded.origin("log.level") == "default"


@pytest.mark.parametrize(
    ("profile", "attempts", "delays", "cap"),
    [("development", 3, (0.5, 1.0), 30.0), ("production", 5, (1.0, 2.0, 4.0, 8.0), 300.0)],
)
def test_profiles(profile: str, attempts: int, delays: tuple[float, ...], cap: float) -> None:
    """S2-2: development has 3 attempts, 500 ms, 30 s; production 5, 1 s, 300 s."""
    retry = load_settings({"LEVERET_PROFILE": profile}).subscription_rules().retry

    assert planned_delays_s(retry) == delays
    assert (retry.max_attempts, retry.max_s) == (attempts, cap)


@pytest.mark.parametrize(
    ("preset", "breaker", "delays", "timeout_s"),
    [
        ("high-traffic", (10, 60.0), (1.0, 2.0), 3.0),
        ("low-traffic", (3, 10.0), (1.0, 2.0, 4.0), 10.0),
        ("critical", (20, 120.0), (2.0, 4.0, 8.0, 16.0, 32.0), 15.0),
    ],
)
def test_presets(
    preset: str, breaker: tuple[int, float], delays: tuple[float, ...], timeout_s: float
) -> None:
    """S3-6: threshold, cooldown, retries, backoff and time-out of each preset."""
    rules = load_settings({"LEVERET_PRESET": preset}).subscription_rules()

    assert (rules.breaker.failures, rules.breaker.cooldown_s) == breaker
    assert planned_delays_s(rules.retry) == delays
    assert rules.timeout_s == timeout_s


def test_an_own_policy_can_be_named_and_changed() -> None:
    """A custom policy can be named, and all its times are settings."""
    settings = load_settings(
        {
            "LEVERET_RETRY__POLICIES": '{"night": {"policy": "linear", "max_attempts": 4, "jitter": 0.5}}',
            "LEVERET_RETRY__POLICY": "night",
            "LEVERET_RETRY__BASE_S": "2",
        }
    )

    retry = settings.subscription_rules().retry
    assert planned_delays_s(retry) == (2.0, 2.0, 2.0)
    assert retry.jitter_ratio == 0.5
    assert planned_delays_s(settings.retry_policies()["night"]) == (5.0, 5.0, 5.0)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "SENDING__TIMEOUT_S",
            "31",
            "sending.timeout_s (env LEVERET_SENDING__TIMEOUT_S): "
            "must be a number from 1 to 30, in seconds, not '31'",
        ),
        (
            "BREAKER__FAILURES",
            "nan",
            "breaker.failures (env LEVERET_BREAKER__FAILURES): "
            "must be a whole number from 0 to 10000, not 'nan'",
        ),
        (
            "SENDIN__TIMEOUT_S",
            "3",
            "LEVERET_SENDIN__TIMEOUT_S: no such setting; did you mean LEVERET_SENDING__TIMEOUT_S?",
        ),
        (
            "WINDOWS__GIVE_BACK_S",
            "901",
            "windows.give_back_s (env LEVERET_WINDOWS__GIVE_BACK_S): "
            "must be a number from 1 to 900, in seconds, not '901'",
        ),
        ("AMQPURL", "x", "LEVERET_AMQPURL: no such setting; did you mean LEVERET_AMQP_URL?"),
        ("ZZZ", "x", "LEVERET_ZZZ: no such setting; see `leveret config show`"),
        (
            "EGRESS__ALLOW",
            "127.0.0.0/8",
            "LEVERET_EGRESS__ALLOW: is not JSON; write a list as JSON, such as '[\"127.0.0.0/8\"]'",
        ),
        (
            "EGRESS__ALLOW",
            '["10.0.0.1/8"]',
            "egress.allow[0] (env LEVERET_EGRESS__ALLOW): '10.0.0.1/8' is not a CIDR network: "
            "10.0.0.1/8 has host bits set; write one such as 10.1.0.0/16",
        ),
        (
            "EGRESS__ALLOW",
            '["10.0.0.0/8:99999"]',
            "egress.allow[0] (env LEVERET_EGRESS__ALLOW): '10.0.0.0/8:99999' is not a CIDR network: "
            "'10.0.0.0/8:99999' has a port outside 1 to 65535; write one such as 10.1.0.0/16",
        ),
        (
            "EGRESS__PROXY",
            "https://user:hidden@proxy.example:3128",
            "egress.proxy (env LEVERET_EGRESS__PROXY): "
            "must be http://USER:PASSWORD@HOST:PORT or socks5://USER:PASSWORD@HOST:PORT",
        ),
        (
            "SENDING__CLIENT",
            "curl",
            "sending.client (env LEVERET_SENDING__CLIENT): must be one of aiohttp, httpx, not 'curl'",
        ),
        (
            "SENDING__DNS_SERVERS",
            '["dns.example"]',
            "sending.dns_servers (env LEVERET_SENDING__DNS_SERVERS): 'dns.example' is not a name server; "
            "write 192.0.2.53, 192.0.2.53:5353 or [fd00::53]:53",
        ),
        (
            "SENDING__DNS_TTL_MAX_S",
            "0.5",
            "sending (env LEVERET_SENDING__DNS_TTL_MAX_S): "
            "dns_ttl_min_s must not be larger than dns_ttl_max_s",
        ),
        (
            "AMQP__MANAGEMENT_URL",
            "http://rabbit.example:99999",
            "amqp.management_url (env LEVERET_AMQP__MANAGEMENT_URL): "
            "must be http://HOST:PORT or https://HOST:PORT, without user and password",
        ),
        (
            "LISTEN",
            "localhost",
            "listen (env LEVERET_LISTEN): "
            "must be HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8080",
        ),
        (
            "TOPOLOGY__RUNGS_S",
            "[1, 1]",
            "topology.rungs_s (env LEVERET_TOPOLOGY__RUNGS_S): "
            "rungs must ascend, each larger than the one before",
        ),
        (
            "RETRY__POLICIES",
            '{"a": {"base": 1}}',
            "retry.policies.a.base (env LEVERET_RETRY__POLICIES): "
            "no such key; did you mean retry.policies.a.base_s?",
        ),
        (
            "RETRY__POLICIES",
            '{"linear": {}}',
            "settings: retry.policies.linear: is the name of a built-in policy; choose another",
        ),
        (
            "SOURCES",
            '[{"name": "a", "exchange": "x", "tenant": "header"}]',
            "sources[0] (env LEVERET_SOURCES): tenant: 'header' is not a rule; "
            'write "header:NAME", "routing_key:N", "body:/json/pointer" or "const:TEXT"',
        ),
    ],
)
def test_a_mistake_names_key_fault_and_allowed_values(name: str, value: str, line: str) -> None:
    """An unknown key or bad value names the key, the fault and the allowed range."""
    assert faults({f"LEVERET_{name}": value}) == [line]


def test_an_unknown_policy_lists_the_known_ones() -> None:
    """The error lists the known policies."""
    (line,) = faults({"LEVERET_RETRY__POLICY": "nope"})

    assert line.startswith("settings: retry.policy: 'nope' is not one of adr, aggressive, ")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """Each fault is one line, also for a file."""
    (tmp_path / "leveret.toml").write_text(
        "colour = 1\n[topologie]\nlanes = 1\n[topology]\nlanes = 0\nlane = 2\n"
    )

    assert sorted(faults({})) == [
        "colour (file leveret.toml): no such key; see `leveret config show`",
        "topologie (file leveret.toml): no such key; did you mean topology?",
        "topology.lane (file leveret.toml): no such key; did you mean topology.lanes?",
        "topology.lanes (file leveret.toml): must be a whole number from 1 to 100, not 0",
    ]


@pytest.mark.parametrize("text", ["a = \n", "a = 1\na = 2\n", "\x00"])
def test_a_broken_file_names_the_line(tmp_path: Path, text: str) -> None:
    """A file that is not TOML is an error that names file and line."""
    (tmp_path / "leveret.toml").write_text(text)

    (line,) = faults({})
    assert line.startswith("leveret.toml: is not TOML: ")
    assert "line" in line
