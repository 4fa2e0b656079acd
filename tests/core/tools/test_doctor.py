"""The judgements of `leveret doctor`: each fault is named, and the state just short of it is well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.model import OutcomeKind
from consumer.core.store.lineage import Doubt
from consumer.core.tools.doctor.broker import (
    NodeState,
    login_fault,
    node_findings,
    rights_findings,
    version_findings,
)
from consumer.core.tools.doctor.endpoints import (
    Way,
    name_server_findings,
    proxy_findings,
    untried_findings,
    way_findings,
)
from consumer.core.tools.doctor.finding import (
    TEXT_MAX,
    Check,
    Finding,
    Level,
    fault,
    has_fault,
    joined,
    summary,
    warning,
    well,
)
from consumer.core.tools.doctor.store import KeyState, doubt_findings, key_findings, schema_findings
from consumer.core.tools.doctor.surroundings import (
    SOON_S,
    ClockReading,
    HomeState,
    Validity,
    certificate_findings,
    clock_findings,
    home_findings,
    own_handle_findings,
)

NOW = 1_800_000_000.0
NODE = NodeState(
    name="rabbit@one",
    files_used=100,
    files_limit=1_000,
    memory_bytes=100,
    memory_limit_bytes=1_000,
    disk_free_bytes=10_000,
    disk_limit_bytes=1_000,
)
HOME = HomeState(path="/var/lib/leveret", is_there=True, is_writable=True, free_bytes=2**40)
WAY = Way(place="hooks.example:443", of=("acme/shop",), ends=NOW + SOON_S + 1)


def levels(findings: Iterable[Finding]) -> Sequence[tuple[Check, Level]]:
    """Return check and level of each finding that is not well."""
    return [(each.check, each.level) for each in findings if each.level is not Level.OK]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (NODE, []),
        (replace(NODE, memory_alarm=True), [(Check.ALARMS, Level.FAULT)]),
        (replace(NODE, disk_alarm=True), [(Check.ALARMS, Level.FAULT)]),
        (replace(NODE, running=False), [(Check.ALARMS, Level.FAULT)]),
        (replace(NODE, partitions=("rabbit@two",)), [(Check.ALARMS, Level.FAULT)]),
        (replace(NODE, memory_bytes=900), []),
        (replace(NODE, memory_bytes=901), [(Check.ALARMS, Level.WARNING)]),
        (replace(NODE, disk_free_bytes=1_500), []),
        (replace(NODE, disk_free_bytes=1_499), [(Check.ALARMS, Level.WARNING)]),
        (replace(NODE, files_used=800), []),
        (replace(NODE, files_used=801), [(Check.HANDLES, Level.WARNING)]),
        (NodeState(name="rabbit@fresh"), []),
    ],
)
def test_a_node_near_its_limits(node: NodeState, expected: Sequence[tuple[Check, Level]]) -> None:
    """Alarms, partitions and nodes that are away are faults; a node near a limit is a warning."""
    found = list(node_findings([node]))

    assert levels(found) == expected
    assert all(each.remedy for each in found)


@pytest.mark.parametrize(
    ("version", "declares", "expected"),
    [
        ("3.9.29", True, Level.FAULT),
        ("3.10.8", True, Level.OK),
        ("4.0.5", False, Level.OK),
        ("3.13.7", True, Level.WARNING),
        ("4.2.6", False, Level.FAULT),
        ("4.2.6", True, Level.WARNING),
        ("4.3.0", False, Level.FAULT),
        ("", True, Level.NOTE),
        ("\x1b[2J", True, Level.NOTE),
    ],
)
def test_a_version_is_judged(version: str, declares: bool, expected: Level) -> None:
    """docs/brokers.md: before 3.10 nothing works; two releases need one more right without declarations."""
    assert [each.level for each in version_findings(version, declares=declares)] == [expected]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ACCESS_REFUSED - Login was refused", "password"),
        ("NOT_ALLOWED - vhost nowhere not found", "add_vhost"),
        ("NOT_ALLOWED - access to vhost 'x' refused for user 'y'", "topology permissions"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed", "ca_file"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "amqps"),
        ("[Errno -2] Name or service not known", "host"),
        ("TimeoutError; it accepted the connection and sent nothing", "open-file limit"),
        ("[Errno 111] Connect call failed", "start the broker"),
    ],
)
def test_a_refused_connection_has_the_remedy_of_its_reason(text: str, remedy: str) -> None:
    """Each reason that a broker or the system gives leads to another remedy."""
    found = login_fault("amqp://broker", text, others_answer=False)

    assert (found.check, found.level) == (Check.LOGIN, Level.FAULT)
    assert remedy in found.remedy
    assert login_fault("amqp://broker", text, others_answer=True).level is Level.WARNING


def test_missing_rights_are_named() -> None:
    """At most three names, and the number of the others."""
    missing = [f"write to leveret.{name}" for name in "abcde"]

    [found] = rights_findings(missing, "shop", checked=9)
    assert found.text == "may not write to leveret.a, write to leveret.b, write to leveret.c and 2 more"
    assert "topology permissions" in found.remedy
    assert levels(rights_findings([], "shop", checked=9)) == []


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        (HOME, []),
        (replace(HOME, is_there=False), [Level.NOTE]),
        (replace(HOME, is_writable=False), [Level.FAULT]),
        (replace(HOME, is_open_to_others=True), [Level.WARNING]),
        (replace(HOME, free_bytes=2**30 - 1), [Level.WARNING]),
        (replace(HOME, free_bytes=10**6), [Level.FAULT]),
    ],
)
def test_the_state_folder(home: HomeState, expected: Sequence[Level]) -> None:
    """It must be there, writable, private, and on a disk with room."""
    assert [each.level for each in home_findings(home)] == expected


def test_a_worker_needs_a_handle_for_each_request() -> None:
    """One handle less than [sending] concurrency and the reserve is a fault."""
    assert levels(own_handle_findings(384, concurrency=256, reserved=128)) == []
    assert levels(own_handle_findings(383, concurrency=256, reserved=128)) == [(Check.HANDLES, Level.FAULT)]


@pytest.mark.parametrize(
    ("off_s", "error_s", "expected"),
    [
        (0.0, 0.0, Level.OK),
        (6.0, 1.5, Level.OK),
        (-6.6, 1.5, Level.WARNING),
        (31.0, 1.5, Level.WARNING),
        (60.0, 1.5, Level.FAULT),
        (-32.0, 1.5, Level.FAULT),
    ],
)
def test_a_clock_that_differs(off_s: float, error_s: float, expected: Level) -> None:
    """Only the part of a difference that the reading's own error cannot explain counts."""
    [found] = clock_findings([ClockReading("the broker", NOW, NOW + off_s, error_s)])

    assert (found.check, found.level) == (Check.CLOCK, expected)
    if expected is not Level.OK:
        assert ("behind" if off_s < 0 else "ahead of") in found.text
        assert "NTP" in found.remedy


def test_the_clock_of_an_endpoint_is_at_most_a_warning() -> None:
    """Its own clock may be the wrong one."""
    [found] = clock_findings([ClockReading("a.example:443", NOW, NOW + 3600, 0.0, is_foreign=True)])

    assert found.level is Level.WARNING


def test_without_another_clock_there_is_a_note() -> None:
    """Nothing is claimed about a clock that could not be compared."""
    assert [each.level for each in clock_findings([])] == [Level.NOTE]


def validity(begins: float, ends: float) -> Validity:
    """Return a certificate by its times, relative to now."""
    return Validity(place="[sending] ca_file", subject="CN=x", begins=NOW + begins, ends=NOW + ends)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(-1, SOON_S)], []),
        ([(-1, SOON_S - 1)], [Level.WARNING]),
        ([(-9, 0)], [Level.FAULT]),
        ([(1, SOON_S)], [Level.FAULT]),
        ([(-9, 0), (-1, SOON_S)], [Level.WARNING]),
    ],
)
def test_a_certificate_that_ends(times: Sequence[tuple[float, float]], expected: Sequence[Level]) -> None:
    """A bundle fails only if none of its certificates is valid."""
    found = certificate_findings([validity(*each) for each in times], NOW, "renew it")

    assert levels(found) == [(Check.TLS, level) for level in expected]


def test_an_ended_authority_that_may_be_the_needed_one() -> None:
    """Where an endpoint was refused for an ended certificate, one valid authority is not enough."""
    bundle = [validity(-9, 0), validity(-1, SOON_S)]

    assert levels(certificate_findings(bundle, NOW, "renew it", needed=True)) == [(Check.TLS, Level.FAULT)]


@pytest.mark.parametrize(
    ("away", "kinds", "expected"),
    [
        (None, [], []),
        ("the proxy p:1 cannot be reached", [], [(Check.EGRESS, Level.FAULT)]),
        (None, [OutcomeKind.TIMEOUT_CONNECT] * 2, [(Check.EGRESS, Level.FAULT)]),
        (None, [OutcomeKind.TIMEOUT_CONNECT, OutcomeKind.DNS], [(Check.EGRESS, Level.FAULT)]),
        (None, [OutcomeKind.TIMEOUT_CONNECT, None], []),
        (None, [OutcomeKind.DNS], []),
    ],
)
def test_a_proxy_that_is_away_or_silent(
    away: str | None, kinds: Sequence[OutcomeKind | None], expected: Sequence[tuple[Check, Level]]
) -> None:
    """It is named even if no endpoint was tried, or if none answers through it."""
    assert levels(proxy_findings(away, [replace(WAY, kind=kind) for kind in kinds])) == expected


@pytest.mark.parametrize(
    ("kind", "detail", "check", "level"),
    [
        (OutcomeKind.BLOCKED, "address 10.0.0.1 is not public", Check.EGRESS, Level.FAULT),
        (OutcomeKind.PROXY, "the proxy p:1 cannot be reached", Check.EGRESS, Level.FAULT),
        (OutcomeKind.LOCAL, "no name server answers anything", Check.DNS, Level.FAULT),
        (OutcomeKind.DNS, "the name does not exist", Check.DNS, Level.WARNING),
        (OutcomeKind.TLS, "unable to get local issuer certificate", Check.TLS, Level.FAULT),
        (OutcomeKind.TLS, "self-signed certificate", Check.TLS, Level.FAULT),
        (OutcomeKind.TLS, "certificate has expired", Check.TLS, Level.WARNING),
        (OutcomeKind.TLS, "Hostname mismatch", Check.TLS, Level.WARNING),
        (OutcomeKind.REFUSED, "Connect call failed", Check.ENDPOINTS, Level.WARNING),
        (OutcomeKind.TIMEOUT_CONNECT, "no connection in time", Check.ENDPOINTS, Level.WARNING),
    ],
)
def test_a_way_that_failed(kind: OutcomeKind, detail: str, check: Check, level: Level) -> None:
    """Faults that this side can mend fail the examination; those of the endpoint's owner do not."""
    [found] = way_findings([replace(WAY, kind=kind, detail=detail)], NOW)

    assert (found.check, found.level, bool(found.remedy)) == (check, level, True)
    assert found.subject == "hooks.example:443 (acme/shop)"


def test_a_certificate_of_an_endpoint_ends_soon() -> None:
    """Two weeks before its end there is a warning."""
    assert levels(way_findings([WAY], NOW)) == []
    assert levels(way_findings([WAY], NOW + 2)) == [(Check.ENDPOINTS, Level.WARNING)]


def test_name_servers_that_do_not_answer() -> None:
    """A fault only if none answers and a name is needed."""
    away = [("192.0.2.1", "answers nothing")]

    assert [e.level for e in name_server_findings(away, 0, needed=True)] == [Level.FAULT]
    assert [e.level for e in name_server_findings(away, 1, needed=True)] == [Level.WARNING]
    assert [e.level for e in name_server_findings(away, 0, needed=False)] == [Level.WARNING]
    assert [e.level for e in name_server_findings([], 1, needed=True)] == [Level.OK]


def test_endpoints_that_were_left_out_are_counted() -> None:
    """The note names the option that tries them all."""
    assert [each.remedy for each in untried_findings(200, 200, 900)] == ["give --endpoints 900"]
    assert [each.text for each in untried_findings(150, 200, 200)] == [
        "50 of 200 endpoints were not reached in time"
    ]
    assert list(untried_findings(900, 900, 900)) == []


def test_schemas_of_other_releases() -> None:
    """A newer one is a fault, an older one is migrated by the next start."""
    assert [list(map(levels, [schema_findings("db", found, "0013")])) for found in (None, "0013")] == [
        [[]],
        [[]],
    ]
    assert levels(schema_findings("db", "0015", "0014")) == [(Check.STORE, Level.FAULT)]
    assert levels(schema_findings("db", "0012", "0014")) == [(Check.STORE, Level.WARNING)]


@pytest.mark.parametrize("doubt", Doubt)
def test_each_doubt_about_the_store_is_a_fault_with_its_remedy(doubt: Doubt) -> None:
    """The text of /readyz is split into fault and remedy."""
    [found] = doubt_findings("leveret.db", doubt)

    assert (found.level, f"{found.text}; {found.remedy}") == (Level.FAULT, doubt.text)


def test_keys_and_locked_secrets() -> None:
    """Locked subscriptions are joined by their reason; a key without use is a warning."""
    used, unused = (KeyState(id=name, is_at_hand=True, subscriptions=n) for name, n in (("aa", 3), ("bb", 0)))
    locked = [(f"acme/{n}", "sealed with store key cc, which is missing") for n in range(5)]

    [found] = key_findings([used], locked)
    assert (found.level, found.subject) == (Level.FAULT, "acme/0, acme/1, acme/2 and 2 more")
    assert levels(key_findings([used], [])) == []
    assert levels(key_findings([used, unused], [])) == [(Check.KEYS, Level.WARNING)]


def test_equal_findings_are_joined_in_the_order_of_the_checks() -> None:
    """One line for many queues with the same fault; the first check comes first."""
    lost = [fault(Check.TOPOLOGY, f"queue {n}", "does not exist", "apply") for n in (1, 2, 3, 4, 1)]

    found = joined([*lost, well(Check.LOGIN, "amqp://broker", "accepts the user")])

    assert [each.check for each in found] == [Check.LOGIN, Check.TOPOLOGY]
    assert found[1].subject == "queue 1, queue 2, queue 3 and 1 more"


def test_only_a_fault_fails() -> None:
    """Exit code: a warning does not fail the examination."""
    warned = [warning(Check.HOME, "x", "y", "z"), well(Check.HOME, "x", "y")]

    assert not has_fault(warned)
    assert has_fault([*warned, fault(Check.HOME, "x", "y", "z")])
    assert summary([*warned, *warned]) == "2 warnings, 2 ok"


@given(st.text(max_size=600))
def test_any_text_is_printed_safely(text: str) -> None:
    """Whatever a server answers, a line stays one line of bounded length without control characters."""
    make: Callable[..., Finding] = fault
    row = make(Check.LOGIN, text, text, text).as_dict()

    assert all(value.isprintable() and len(value) <= TEXT_MAX for value in row.values())
