"""Settings: what wins over what, and how a mistake is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core import schema
from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.errors import ConfigError
from consumer.core.fairness.noisy_tenants import TenantLimit
from consumer.core.retry.policy import POLICIES, planned_delays_s
from consumer.edges.broker.prefetch import windows
from consumer.edges.http import Proxy, open_sender
from consumer.flow.take.intake import Source
from consumer.settings import FairnessSettings, Settings, load, load_settings, split_amqp_urls
from topology.plan import TopologySpec, lane_queues


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no leveret.toml of the checkout be found."""
    monkeypatch.chdir(tmp_path)


def faults(environ: Mapping[str, str]) -> list[str]:
    """Return the lines of the error that *environ* causes."""
    with pytest.raises(ConfigError) as raised:
        load_settings(environ)
    return str(raised.value).splitlines()


def test_the_defaults_are_those_of_the_contract() -> None:
    """Outside contract, environment: state folder, listen address, private broker, 37 rungs, 16 lanes."""
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
    """Built once; Settings() itself reads nothing."""
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
    ("profile", "delays", "cap"),
    [("development", (0.5, 1.0), 30.0), ("production", (1.0, 2.0, 4.0, 8.0), 300.0)],
)
def test_profiles(profile: str, delays: tuple[float, ...], cap: float) -> None:
    """S2-2: development has 3 attempts, 500 ms, 30 s; production 5, 1 s, 300 s."""
    retry = load_settings({"LEVERET_PROFILE": profile}).subscription_rules().retry

    assert planned_delays_s(retry) == delays
    assert retry.max_s == cap


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
    """Every time in policies is a setting."""
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
            "sending.dns_servers (env LEVERET_SENDING__DNS_SERVERS): 'dns.example' is not a name server: "
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
            "sources[0] (env LEVERET_SOURCES): tenant: 'header' is no rule; "
            'write "header:NAME", "routing_key:N", "body:/json/pointer" or "const:TEXT"',
        ),
    ],
)
def test_a_mistake_names_key_fault_and_what_is_allowed(name: str, value: str, line: str) -> None:
    """An unknown key or bad value names the key, the fault and the allowed range."""
    assert faults({f"LEVERET_{name}": value}) == [line]


def test_an_unknown_policy_lists_the_known_ones() -> None:
    """The fault names what would be allowed."""
    (line,) = faults({"LEVERET_RETRY__POLICY": "nope"})

    assert line.startswith("settings: retry.policy: 'nope' is not one of adr, aggressive, ")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """One line per problem, in the file too."""
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
    """A file that is no TOML is an error that names file and line."""
    (tmp_path / "leveret.toml").write_text(text)

    (line,) = faults({})
    assert line.startswith("leveret.toml: is not TOML: ")
    assert "line" in line


def test_the_file_is_looked_for_in_three_places(tmp_path: Path) -> None:
    """LEVERET_CONFIG, else ./leveret.toml, else LEVERET_HOME/leveret.toml."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "leveret.toml").write_text("listen = '127.0.0.1:1'\n")
    in_home = load_settings({"LEVERET_HOME": str(home)})
    (tmp_path / "leveret.toml").write_text("listen = '127.0.0.1:2'\n")
    here = load_settings({"LEVERET_HOME": str(home)})
    (tmp_path / "other.toml").write_text("listen = '127.0.0.1:3'\n")
    named = load_settings({"LEVERET_HOME": str(home), "LEVERET_CONFIG": "other.toml"})

    assert [settings.listen_port for settings in (in_home, here, named)] == [1, 2, 3]
    assert faults({"LEVERET_CONFIG": "gone.toml"}) == [
        "LEVERET_CONFIG: the file gone.toml does not exist; name an existing one or unset it"
    ]


def test_the_home_is_absolute_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 81: wherever the process goes later, its home stays where it was."""
    monkeypatch.chdir(tmp_path)
    given = load_settings({"LEVERET_HOME": "state"})
    monkeypatch.chdir("/")

    assert given.home == tmp_path / "state"
    assert load_settings({"LEVERET_HOME": "/var/lib/leveret"}).home == Path("/var/lib/leveret")


def test_foreign_variables_do_not_stop_the_start() -> None:
    """Outside contract, environment: what Kubernetes makes for a service `leveret` is no setting."""
    foreign = {
        "LEVERET_SERVICE_HOST": "10.0.0.1",
        "LEVERET_SERVICE_PORT_HTTP": "80",
        "LEVERET_PORT": "tcp://10.0.0.1:80",
        "LEVERET_PORT_80_TCP_ADDR": "10.0.0.1",
        "LEVERET_TEST_ANYTHING": "1",
        "LEVERET_TOPOLOGY__PREFIX": "",
        "OTHER": "1",
    }

    assert load_settings(foreign) == Settings(home=Path(".leveret").absolute())


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("AMQP_URL", "amqp://user:hush@h/", "http://user:hush@h/"),
        ("DATABASE_URL", "postgresql://user:hush@h/d", "mysql://user:hush@h/d"),
        ("AMQP_URL", "amqp://user:hush@h/%2F", "amqp://user:1/hush@h/"),
        ("AMQP_URL", "amqp://user:hush@h/?heartbeat=5", "amqp://user:1?hush@h/"),
        ("AMQP_URL", "amqp://user:hush@h/v", "amqp://user:a@1/hush@h/"),
        ("DATABASE_URL", "postgres://user:hush@h:5432/d?sslmode=require", "postgresql://user:hush@h:x/d"),
        ("DATABASE_URL", "postgresql://user:hush@h:1,[::1]:2,i/d", "postgresql://user:1/hush@h/d"),
        ("DATABASE_URL", "postgresql:///d?host=/run&password=hush", "postgresql://user:1?hush@h/d"),
        ("DATABASE_URL", "postgresql://user:hush@h/d?sslmode=", "postgresql://user:1,[hush@h/d"),
        ("DATABASE_URL", "postgresql://user:hush@h:65535/d", "postgresql://user:hush@h:65536,i/d"),
        ("STORE__KEY", "hushhushhushhushhushhushhushhushhushhushhus=", "hush"),
        ("STORE__KEY", f"{'hush' * 10}hus=, {'HUSH' * 10}HUS=", f"{'hush' * 10}hus= hush"),
    ],
)
def test_a_secret_is_in_no_message_and_no_repr(name: str, good: str, bad: str) -> None:
    """An error or a repr never holds a password or a key."""
    settings = load_settings({f"LEVERET_{name}": good})
    assert "hush" not in repr(settings) + str(settings)

    lines = faults({f"LEVERET_{name}": bad, "LEVERET_LISTEN": "x"})
    assert len(lines) == 2
    assert "hush" not in "".join(lines)


def test_the_database_url_comes_from_a_file_too(tmp_path: Path) -> None:
    """As a mounted secret; what is set nearer hides the other way to say it."""
    secret = tmp_path / "database"
    secret.write_text("postgres://u:p@h/d\n")
    filed = load_settings({"LEVERET_DATABASE_URL_FILE": str(secret)})
    assert filed.postgres_url() == "postgresql://u:p@h/d"
    assert load_settings({}).postgres_url() is None

    config = tmp_path / "leveret.toml"
    config.write_text(f'database_url_file = "{secret}"\n[store]\nkey_file = "{secret}"\n')
    near = {"LEVERET_CONFIG": str(config), "LEVERET_DATABASE_URL": "postgresql+asyncpg://near/d"}
    assert load_settings(near).postgres_url() == "postgresql://near/d"
    assert load_settings(near | {"LEVERET_STORE__KEY": "A" * 43 + "="}).store.key_file is None

    secret.write_text("mysql://u:p@h/d")
    with pytest.raises(ConfigError, match=rf"^database_url_file: {secret}: must be postgresql://"):
        filed.postgres_url()


def test_two_ways_to_say_one_thing_in_one_place_is_an_error(tmp_path: Path) -> None:
    """Key and key file, or URL and URL file, of one source contradict each other."""
    both = {"LEVERET_STORE__KEY": "A" * 43 + "=", "LEVERET_STORE__KEY_FILE": "f"}
    [line] = faults(both)
    assert "store.key and store.key_file cannot both be set" in line
    [line] = faults({"LEVERET_DATABASE_URL": "postgresql://h/d", "LEVERET_DATABASE_URL_FILE": "f"})
    assert "database_url and database_url_file cannot both be set" in line


@pytest.mark.parametrize("query", ["no_verify_ssl=1", "heartbeat=5&no_verify_ssl=0", "NO_VERIFY_SSL=1"])
def test_a_url_cannot_switch_off_the_check_of_the_brokers_certificate(query: str) -> None:
    """The remedy is the authority's file; the URL, which holds a password, is never repeated."""
    with pytest.raises(
        ConfigError, match=r"no_verify_ssl; name the broker's authority in .amqp. ca_file"
    ) as no:
        load_settings({"LEVERET_AMQP_URL": f"amqps://u:geheim@h/?{query}"})

    assert "geheim" not in str(no.value)


def test_amqp_urls_come_as_a_list_or_from_a_file(tmp_path: Path) -> None:
    """AMQP URL list, URL from a file that is read anew at each connection."""
    listed = load_settings({"LEVERET_AMQP_URL": "amqp://u:a,b@one/ , amqps://two/%2f amqp://three"})
    assert listed.amqp_urls() == ("amqp://u:a,b@one/", "amqps://two/%2f", "amqp://three")

    secret = tmp_path / "amqp"
    secret.write_text("amqp://one\n")
    filed = load_settings({"LEVERET_AMQP_URL_FILE": str(secret)})
    assert filed.amqp_urls() == ("amqp://one",)
    secret.write_text("amqp://two\n")
    assert filed.amqp_urls() == ("amqp://two",)
    secret.unlink()
    with pytest.raises(ConfigError, match=r"^amqp_url_file: cannot read .*: No such file or directory$"):
        filed.amqp_urls()


def test_the_environment_chooses_between_url_and_url_file(tmp_path: Path) -> None:
    """Outside contract, environment: URL or URL file; the higher layer's choice hides the lower one's."""
    (tmp_path / "leveret.toml").write_text('amqp_url_file = "gone"\n')

    assert load_settings({"LEVERET_AMQP_URL": "amqp://h"}).amqp_urls() == ("amqp://h",)
    assert faults({"LEVERET_AMQP_URL": "amqp://h", "LEVERET_AMQP_URL_FILE": "x"}) == [
        "settings: amqp_url and amqp_url_file cannot both be set"
    ]


@given(st.text(max_size=60))
def test_any_text_as_an_amqp_url_is_taken_or_refused(text: str) -> None:
    """No value makes the check fail in any other way, nor is it repeated."""
    for url in (text, f"amqp://{text}", f"amqp://user:{text}@host"):
        try:
            urls = split_amqp_urls(url)
        except ValueError as refused:
            told = str(refused)
        else:
            assert urls
            continue
        assert told == "contains no AMQP URL" or told.endswith(("or amqps://...", "as %40 %2F %3F %23"))


def test_every_setting_says_what_it_is_and_round_trips() -> None:
    """Each field has a description, and its default passes its own bounds."""
    for path, field in schema.leaves(Settings):
        assert field.description, schema.dotted(path)
        assert schema.allowed(field, path[-1]), schema.dotted(path)
        assert schema.find_field(Settings, path) is field

    dump = Settings().model_dump(mode="json")
    assert Settings.model_validate(json.loads(json.dumps(dump))) == Settings()


def test_sources_become_topology_and_decode_rules() -> None:
    """What needs more than headers goes through an inbox."""
    settings = load_settings(
        {
            "LEVERET_SOURCES": json.dumps(
                [
                    {"name": "plain", "exchange": "a", "tenant": "header:tenant"},
                    {"name": "deep", "exchange": "b", "routing_key": "x.#", "tenant": "body:/company/id"},
                ]
            ),
            "LEVERET_EVENTS__MISSING_TENANT": "park",
        }
    )

    plain, deep = settings.topology_spec().sources
    rules = settings.decode_rules()
    assert (plain.direct, deep.direct, deep.routing_key) == (True, False, "x.#")
    assert list(rules.exchanges) == ["a"]
    assert list(rules.inboxes) == ["leveret.inbox.deep", "leveret.inbox.deep.died"]
    assert rules.default_tenant is None


def test_a_tier_gives_its_weight() -> None:
    """S1-16: by tier or by number; a tenant without one weighs 1; an unknown tier is refused by name."""
    fairness = FairnessSettings(tiers={"gold": 4.0}, tenants={"acme": "gold", "shop": 0.5})

    assert [fairness.weight_of(tenant) for tenant in ("acme", "shop", "other")] == [4.0, 0.5, 1.0]
    [fault] = faults({"LEVERET_FAIRNESS__TENANTS": '{"acme":"silver"}'})
    assert fault.endswith("tenants.acme: there is no tier 'silver'; add it to tiers or write a weight")
    assert any("0.001" in fault for fault in faults({"LEVERET_FAIRNESS__TIERS": '{"gold":1e-300}'}))


def test_egress_is_what_it_says() -> None:
    """Networks with and without a port, what is denied, and the way out."""
    settings = load(
        {
            "LEVERET_EGRESS__ALLOW": '["10.0.0.0/8", "10.9.0.0/16:8443", "127.0.0.1"]',
            "LEVERET_EGRESS__DENY": '["10.1.0.0/16"]',
            "LEVERET_EGRESS__PROXY": "socks5://us%40er:p%3Aw@proxy.example:1080",
            "LEVERET_SENDING__DNS_SERVERS": '["192.0.2.53", "192.0.2.53:5353", "[fd00::53]:53", "fd00::53"]',
        }
    ).settings

    rule = settings.egress_rule()
    way = open_sender(settings).options.proxy

    assert [str(allowed) for allowed in rule.allow] == ["10.0.0.0/8", "10.9.0.0/16:8443", "127.0.0.1/32"]
    assert [str(network) for network in rule.deny] == ["10.1.0.0/16"]
    assert way == Proxy(scheme="socks5", host="proxy.example", port=1080, user="us@er", password="p:w")
    assert "p%3Aw" not in repr(settings)
    assert "p:w" not in repr(way)
    assert settings.model_dump(mode="json")["egress"]["allow"][1] == "10.9.0.0/16:8443"


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy.example:0",
        "http://proxy.example:99999",
        "socks5://u:p@[::1]:65536",
        "http://[::::]:3128",
        "http://pro xy:3128",
        "http://proxy.example",
        "https://proxy.example:3128",
    ],
)
def test_a_proxy_that_cannot_be_one_is_told_at_start(url: str) -> None:
    """One line that names the field and how to write it, and never repeats a password."""
    [fault] = faults({"LEVERET_EGRESS__PROXY": url})

    assert fault.strip().startswith(
        "egress.proxy (env LEVERET_EGRESS__PROXY): must be http://USER:PASSWORD@HOST:PORT"
    )


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SENDING__DNS_SERVERS", '["192.0.2.53:99999"]', "is not a name server"),
        ("SENDING__DNS_SERVERS", '["[fd00::53]:0"]', "is not a name server"),
        ("AMQP__MANAGEMENT_URL", "http://rabbit.example:99999", "must be http://HOST:PORT"),
        ("AMQP__MANAGEMENT_URL", "http://rabbit.example:0", "must be http://HOST:PORT"),
        ("AMQP__MANAGEMENT_URL", "http://[::::]:15672", "must be http://HOST:PORT"),
        ("SENDING__DNS_TIMEOUT_S", "6", "dns_timeout_s must not be larger than connect_timeout_s"),
        ("SENDING__CONNECTIONS_PER_HOST", "8", "must not be smaller than endpoint_concurrency"),
        ("SENDING__CONNECTIONS_PER_HOST", "0", "connections_per_host"),
    ],
)
def test_what_sending_cannot_use_is_told_at_start(variable: str, value: str, told: str) -> None:
    """S2-1: bounds that contradict each other and ports that there are not, by the name of the field."""
    [fault] = faults({f"LEVERET_{variable}": value})

    assert told in fault


@pytest.mark.parametrize(
    ("connect_s", "dns_s", "bounds"),
    [
        (None, None, (5.0, 4.0)),
        ("2.5", None, (2.5, 2.0)),
        ("30", None, (30.0, 4.0)),
        ("0.5", None, (0.5, 0.4)),
        ("3", "2", (3.0, 2.0)),
        ("30", "30", (30.0, 30.0)),
    ],
)
def test_the_bound_on_a_look_up_follows_that_on_connecting(
    connect_s: str | None, dns_s: str | None, bounds: tuple[float, float]
) -> None:
    """Fault 42: where nothing is said of the look-up it follows the time to connect, and stays shorter."""
    given = {"CONNECT_TIMEOUT_S": connect_s, "DNS_TIMEOUT_S": dns_s}
    environ = {f"LEVERET_SENDING__{name}": value for name, value in given.items() if value is not None}

    options = open_sender(load_settings(environ)).options

    assert (options.connect_timeout_s, options.resolve_timeout_s) == bounds


def test_how_connections_are_bounded_reaches_the_sender() -> None:
    """A bound per host and an end of life, from the settings; no bound is the default."""
    some = load_settings(
        {"LEVERET_SENDING__CONNECTIONS_PER_HOST": "40", "LEVERET_SENDING__CONNECTION_MAX_AGE_S": "60"}
    )
    options, default = open_sender(some).options, open_sender(Settings()).options

    assert (options.connections_per_host, options.connection_max_age_s) == (40, 60.0)
    assert (default.connections_per_host, default.connection_max_age_s) == (0, 300.0)


def test_limits_of_a_tenant_take_the_place_of_those_of_all() -> None:
    """Each by itself; without any nobody is limited."""
    fairness = FairnessSettings.model_validate(
        {"events_per_s": 50, "limits": {"acme": {"events_per_s": 5}, "shop": {"backlog": 100}}}
    )

    assert fairness.limit_of("acme") == TenantLimit(events_per_s=5)
    assert fairness.limit_of("shop") == TenantLimit(events_per_s=50, backlog=100)
    assert FairnessSettings().limit_of("acme") == TenantLimit()


def test_lanes_of_their_own_come_from_the_settings() -> None:
    """Dedicated, retired and former lanes reach plan and window; none is both."""
    settings = load_settings(
        {
            "LEVERET_TOPOLOGY__LANES": "2",
            "LEVERET_TOPOLOGY__LANES_BEFORE": "4",
            "LEVERET_TOPOLOGY__DEDICATED": '["acme"]',
            "LEVERET_TOPOLOGY__RETIRED": '["shop"]',
        }
    )

    spec = settings.topology_spec()

    assert (spec.lanes_before, spec.dedicated, spec.retired) == (4, ("acme",), ("shop",))
    [window] = [w for w in windows(settings) if w.source is Source.LANE]
    assert window.queues == lane_queues(spec)
    both = {f"LEVERET_TOPOLOGY__{name}": '["acme"]' for name in ("DEDICATED", "RETIRED")}
    [fault] = faults(both)
    assert "dedicated and retired at once" in fault


@pytest.mark.parametrize(
    ("environ", "window", "hold"),
    [
        ({}, 256, 512),
        ({"LEVERET_TOPOLOGY__DUE_QUEUES": "1"}, 512, 256),
        ({"LEVERET_SENDING__CONCURRENCY": "1"}, 1, 2),
        ({"LEVERET_WINDOWS__DUE_PREFETCH": "300", "LEVERET_WINDOWS__DUE_HOLD": "7"}, 300, 7),
    ],
)
def test_due_queues_together_have_twice_the_window_of_a_lane(
    environ: Mapping[str, str], window: int, hold: int
) -> None:
    """Deliveries spread over them; what is read of a storm stands before the next event of everybody."""
    settings = load_settings(environ)

    assert (settings.due_window(), settings.due_hold()) == (window, hold)
