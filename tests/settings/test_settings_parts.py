"""Settings become the values that the daemon is built from: sources, egress, sending, lanes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from consumer.core import schema
from consumer.core.fairness.noisy_tenants import TenantLimit
from consumer.edges.broker.consume.prefetch import windows
from consumer.edges.http import Proxy, open_sender
from consumer.ports import Source
from consumer.settings import FairnessSettings, Settings, load, load_settings
from tests.support.settings import faults
from topology.plan import lane_queues


def test_every_setting_says_what_it_is_and_round_trips() -> None:
    """Each field has a description, and its default passes its own bounds."""
    schema.describe_fields(Settings)
    for path, field in schema.leaves(Settings):
        assert field.description, schema.dotted(path)
        assert schema.accepted_values(field, path[-1]), schema.dotted(path)
        assert schema.find_field(Settings, path) is field

    dump = Settings().model_dump(mode="json")
    assert Settings.model_validate(json.loads(json.dumps(dump))) == Settings()


def test_sources_become_topology_and_decode_rules() -> None:
    """A source whose events need more than headers gets an inbox."""
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
    """S1-16: a weight comes from a tier or a number, is 1 by default, and an unknown tier is refused."""
    fairness = FairnessSettings(tiers={"gold": 4.0}, tenants={"acme": "gold", "shop": 0.5})

    assert [fairness.weight_of(tenant) for tenant in ("acme", "shop", "other")] == [4.0, 0.5, 1.0]
    [fault] = faults({"LEVERET_FAIRNESS__TENANTS": '{"acme":"silver"}'})
    assert fault.endswith("tenants.acme: there is no tier 'silver'; add it to tiers or write a weight")
    assert any("0.001" in fault for fault in faults({"LEVERET_FAIRNESS__TIERS": '{"gold":1e-300}'}))


def test_egress_is_what_it_says() -> None:
    """Networks with and without a port, denied networks and the proxy reach the egress rule."""
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
def test_an_invalid_proxy_is_reported_at_start(url: str) -> None:
    """One line names the field and the accepted form, and never repeats a password."""
    [fault] = faults({"LEVERET_EGRESS__PROXY": url})

    assert fault.strip().startswith(
        "egress.proxy (env LEVERET_EGRESS__PROXY): must be http://USER:PASSWORD@HOST:PORT"
    )


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
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
def test_settings_that_sending_cannot_use_are_reported_at_start(
    variable: str, value: str, expected: str
) -> None:
    """S2-1: contradictory bounds and invalid ports are refused with the name of the field."""
    [fault] = faults({f"LEVERET_{variable}": value})

    assert expected in fault


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
    """Fault 42: by default the bound of the look-up follows the time to connect, and stays shorter."""
    given = {"CONNECT_TIMEOUT_S": connect_s, "DNS_TIMEOUT_S": dns_s}
    environ = {f"LEVERET_SENDING__{name}": value for name, value in given.items() if value is not None}

    options = open_sender(load_settings(environ)).options

    assert (options.connect_timeout_s, options.resolve_timeout_s) == bounds


def test_how_connections_are_bounded_reaches_the_sender() -> None:
    """The bound per host and the maximum age reach the sender; by default there is no bound per host."""
    some = load_settings(
        {"LEVERET_SENDING__CONNECTIONS_PER_HOST": "40", "LEVERET_SENDING__CONNECTION_MAX_AGE_S": "60"}
    )
    options, default = open_sender(some).options, open_sender(Settings()).options

    assert (options.connections_per_host, options.connection_max_age_s) == (40, 60.0)
    assert (default.connections_per_host, default.connection_max_age_s) == (0, 300.0)


def test_limits_of_a_tenant_take_the_place_of_those_of_all() -> None:
    """Each limit of a tenant replaces the general one separately; by default no tenant is limited."""
    fairness = FairnessSettings.model_validate(
        {"events_per_s": 50, "limits": {"acme": {"events_per_s": 5}, "shop": {"backlog": 100}}}
    )

    assert fairness.limit_of("acme") == TenantLimit(events_per_s=5)
    assert fairness.limit_of("shop") == TenantLimit(events_per_s=50, backlog=100)
    assert FairnessSettings().limit_of("acme") == TenantLimit()


def test_lanes_of_their_own_come_from_the_settings() -> None:
    """Dedicated, retired and former lanes reach plan and windows; a tenant cannot be both."""
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
    """Each due queue has half the window of a lane, because deliveries are spread over several."""
    settings = load_settings(environ)

    assert (settings.due_window(), settings.due_hold()) == (window, hold)
