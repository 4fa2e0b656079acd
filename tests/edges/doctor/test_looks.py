"""The looks of `leveret doctor` that need no broker: clocks, endpoints, certificates, rules, the daemon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from consumer.core.changes.merge import StoredEntry
from consumer.core.model import OutcomeKind
from consumer.core.tools.doctor.finding import Check, Finding, Level
from consumer.edges.doctor.certificates import certificate_findings_of, system_authority_findings
from consumer.edges.doctor.clocks import postgres_reading, reading_of
from consumer.edges.doctor.endpoints import WayFinder, endpoints_of
from consumer.edges.doctor.machine import home_state, look_at_daemon
from consumer.edges.doctor.network import NetworkLook
from consumer.edges.doctor.topology_findings import of_topology
from consumer.edges.operate.sender import make_sender
from consumer.settings import Settings, load_settings
from tests.support.processes.children import free_port
from tests.support.processes.postgres import Postgres
from tests.support.servers.certificates import Authority
from tests.support.servers.raw_server import Call, RawServer
from tests.support.servers.web_app import listening
from topology import check
from topology.plan import TopologySpec, build_plan

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
DATE_AT = 784_111_777.0
PLAN = build_plan(TopologySpec())


def entry(url: str, name: str = "shop", **more: object) -> StoredEntry:
    """Return a stored subscription of the tenant acme."""
    fields = {"tenant": "acme", "name": name, "url": url, "events": ["#"], "secrets": [SECRET], **more}
    return StoredEntry.model_validate(fields)


def settings(**values: str) -> Settings:
    """Return settings; keywords are variables without their prefix."""
    return load_settings({f"LEVERET_{name}": value for name, value in values.items()})


def bad(findings: Sequence[Finding], area: Check) -> list[tuple[Level, str]]:
    """Return level and subject of the findings of one check that are not well."""
    return [
        (each.level, each.subject) for each in findings if each.check is area and each.level is not Level.OK
    ]


def test_comments_of_a_certificate_file_may_have_any_encoding(tmp_path: Path) -> None:
    """OpenSSL takes such a file."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes("# café\n".encode("latin-1") + Authority(tmp_path).pem.encode())

    findings = certificate_findings_of(settings(SENDING__CA_FILE=str(bundle)), (), ())

    assert [each.level for each in findings if each.level is Level.FAULT] == []


def test_a_date_is_read_with_its_error() -> None:
    """The answer took two seconds, so the reading may be off by one more."""
    reading = reading_of("the broker", DATE, DATE_AT + 9, DATE_AT + 11)

    assert reading is not None
    assert (reading.theirs, reading.ours, reading.error_s) == (DATE_AT + 0.5, DATE_AT + 10, 2.5)


@pytest.mark.parametrize("date", ["", "soon", "Sun, 06 Nov 99999 08:49:37 GMT", "\x00"])
def test_a_date_that_cannot_be_read_is_no_clock(date: str) -> None:
    """A server may answer anything."""
    assert reading_of("x", date, 0, 0) is None


async def test_postgresql_shows_its_clock(postgres: Postgres) -> None:
    """It is the clock of this machine here; one that is away shows none."""
    reading = await postgres_reading(postgres.url(), 5)

    assert reading is not None
    assert abs(reading.theirs - reading.ours) < 5
    assert await postgres_reading(f"postgresql://u:p@127.0.0.1:{free_port()}/x", 5) is None


def test_each_place_is_tried_once() -> None:
    """Subscriptions with one host and port share a connection; disabled and locked ones are left out."""
    found = endpoints_of(
        [
            entry("https://a.example/x", "one"),
            entry("https://a.example/y?key=hush", "two"),
            entry("https://a.example:8443/", "three"),
            entry("https://b.example/", "four", enabled=False),
            entry("https://c.example/", "five", locked="no key"),
        ]
    )

    assert [(each.place, each.of) for each in found] == [
        ("a.example:443", ("acme/one", "acme/two")),
        ("a.example:8443", ("acme/three",)),
    ]


async def test_an_endpoint_shows_its_time_and_gets_no_webhook() -> None:
    """HEAD / without path, token and headers of the subscription."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(f"HTTP/1.1 405 No\r\nServer: x\r\nDATE: {DATE}\r\n\r\n".encode())
        await call.gone()

    chosen = settings(EGRESS__ALLOW='["127.0.0.0/8"]')
    async with RawServer(talk) as server:
        sender = make_sender(chosen)
        finder = WayFinder(sender, chosen.egress_rule(), wants_time=True)
        [way] = await finder.ways(endpoints_of([entry(f"http://127.0.0.1:{server.port}/secret?key=hush")]))
        await sender.close()

    assert way.kind is None
    assert [reading.theirs for reading in finder.readings] == [DATE_AT + 0.5]
    assert server.requests[0].startswith(b"HEAD / HTTP/1.1\r\n")
    assert b"hush" not in server.requests[0]


async def test_one_of_many_endpoints_is_asked_for_its_time() -> None:
    """The others that connect meanwhile are not, and the reading is that of a stranger."""

    async def talk(call: Call) -> None:
        await call.request()
        await call.say(f"HTTP/1.1 200 OK\r\nDate: {DATE}\r\n\r\n".encode())
        await call.gone()

    chosen = settings(EGRESS__ALLOW='["127.0.0.0/8"]')
    async with RawServer(talk) as one, RawServer(talk) as two, RawServer(talk) as three:
        servers = (one, two, three)
        sender = make_sender(chosen)
        finder = WayFinder(sender, chosen.egress_rule(), wants_time=True)
        urls = [f"http://127.0.0.1:{server.port}/" for server in servers]
        await finder.ways(endpoints_of([entry(url, f"shop{url[-5:-1]}") for url in urls]))
        await sender.close()

    assert [reading.is_foreign for reading in finder.readings] == [True]
    assert sum(len(server.requests) for server in servers) == 1


async def test_a_rule_that_forbids_and_one_that_allows_all() -> None:
    """The address guard's own answer, and rules that switch it off or have no effect."""
    chosen = settings(
        EGRESS__ALLOW='["0.0.0.0/0", "10.1.0.0/16"]', EGRESS__DENY='["10.0.0.0/8", "127.0.0.0/8"]'
    )

    look = NetworkLook()
    await look.take(chosen, [entry("https://127.0.0.1/")], 10)

    assert bad(look.findings, Check.EGRESS) == [
        (Level.WARNING, "[egress] allow 0.0.0.0/0"),
        (Level.WARNING, "[egress] allow 10.1.0.0/16"),
        (Level.FAULT, "127.0.0.1:443 (acme/shop)"),
    ]


async def test_certificate_files_that_cannot_be_used(tmp_path: Path, authority: Authority) -> None:
    """One that is missing, one without a certificate, and one in a subscription that has ended."""
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    ended = authority.pair("old", days=-1).certificate
    chosen = settings(AMQP__CA_FILE=str(empty), SENDING__CA_FILE=str(tmp_path / "none.pem"))

    look = NetworkLook()
    await look.take(chosen, [entry("https://192.0.2.1/", tls={"ca": ended})], 0)

    subjects = [subject for level, subject in bad(look.findings, Check.TLS) if level is Level.FAULT]
    assert any(str(empty) in subject for subject in subjects)
    assert any("none.pem" in subject for subject in subjects)
    assert "acme/shop tls.ca: CN=old" in subjects


@pytest.mark.parametrize(("days", "expected"), [(90, []), (-1, [Level.FAULT])])
def test_the_authorities_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, expected: list[Level]
) -> None:
    """The bundle that OpenSSL reads has to contain one authority that is valid now."""
    monkeypatch.setenv("SSL_CERT_FILE", Authority(tmp_path, days=days).file)

    assert [each.level for each in system_authority_findings(needed=True)] == expected


def test_authorities_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not PEM, and none at all."""
    spoiled = tmp_path / "spoiled.pem"
    spoiled.write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(spoiled))
    [unreadable] = system_authority_findings(needed=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    [absent] = system_authority_findings(needed=False)

    assert (unreadable.level, absent.level) == (Level.FAULT, Level.WARNING)


def test_the_state_folder_is_looked_at(tmp_path: Path) -> None:
    """A file instead of a folder, a folder that is private, and one that is not."""
    file, home = tmp_path / "file", tmp_path / "home"
    file.write_text("")
    home.mkdir(mode=0o700)

    assert not home_state(file).is_writable
    assert not home_state(tmp_path / "none").is_there
    assert (home_state(home).is_writable, home_state(home).is_open_to_others) == (True, False)
    home.chmod(0o704)
    assert home_state(home).is_open_to_others


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (200, "ready\n", Level.OK),
        (200, "ready\n1 difference\n", Level.WARNING),
        (503, "not ready: no connection\n", Level.FAULT),
        (200, "<html>hello</html>", Level.FAULT),
        (404, "not ready: x", Level.FAULT),
    ],
)
async def test_the_daemon_is_asked(status: int, text: str, expected: Level) -> None:
    """Ready, ready with notes, not ready, or another program at its address."""
    app = web.Application()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    app.router.add_get("/readyz", answer)
    async with listening(app) as port:
        [found] = await look_at_daemon(settings(LISTEN=f"127.0.0.1:{port}"))

    assert (found.check, found.level) == (Check.DAEMON, expected)


async def test_no_daemon_is_a_note() -> None:
    """The doctor also runs before the first start."""
    [found] = await look_at_daemon(settings(LISTEN=f"127.0.0.1:{free_port()}"))
    [unknown] = await look_at_daemon(settings(LISTEN="127.0.0.1:0"))

    assert (found.level, unknown.level) == (Level.NOTE, Level.NOTE)


@pytest.mark.parametrize(
    ("subject", "text", "expected"),
    [
        ("plugin rabbitmq_consistent_hash_exchange", "is not enabled", Check.PLUGIN),
        ("feature flag quorum_queue", "is disabled", Check.VERSION),
        ("node rabbit@one", "may open 1024 files", Check.HANDLES),
        ("queue leveret.parked", "policy tidy sets expires 5", Check.POLICIES),
        ("queue leveret.parked", "x-max-length is 5", Check.TOPOLOGY),
    ],
)
def test_a_difference_belongs_to_a_check(subject: str, text: str, expected: Check) -> None:
    """Findings of `topology check` are sorted into the checks; all other checks are well."""
    one = check.Finding(check.Severity.ERROR, subject, text, "mend it")

    found = list(of_topology(PLAN, [one], declares=True, looked=True))

    assert [(each.check, each.subject) for each in found if each.level is Level.FAULT] == [
        (expected, subject)
    ]
    assert {each.check for each in found if each.level is Level.OK} >= {
        Check.PLUGIN,
        Check.HANDLES,
        Check.POLICIES,
    } - {expected}


def test_one_missing_queue_is_a_fault_and_a_whole_missing_topology_is_not() -> None:
    """A worker declares what is missing at its start; one lost queue means that messages went astray."""
    every = [check.missing_finding("queue", each.name) for each in PLAN.queues]
    every += [check.missing_finding("exchange", each.name) for each in PLAN.exchanges]

    one = list(of_topology(PLAN, every[:1], declares=True, looked=True))
    new = list(of_topology(PLAN, every, declares=True, looked=True))
    undeclared = list(of_topology(PLAN, every, declares=False, looked=True))

    assert bad(one, Check.TOPOLOGY) == [(Level.FAULT, f"queue {PLAN.queues[0].name}")]
    assert bad(new, Check.TOPOLOGY) == [(Level.WARNING, "leveret.*")]
    assert bad(undeclared, Check.TOPOLOGY) == [(Level.FAULT, "leveret.*")]


async def test_a_silent_endpoint_costs_its_time_out_only() -> None:
    """A server that accepts a connection and never begins TLS is reported beside one that refuses."""

    async def silence(call: Call) -> None:
        await call.gone()

    chosen = settings(EGRESS__ALLOW='["127.0.0.0/8"]', SENDING__CONNECT_TIMEOUT_S="0.5")
    async with RawServer(silence) as server:
        sender = make_sender(chosen)
        finder = WayFinder(sender, chosen.egress_rule(), wants_time=False)
        urls = (f"https://127.0.0.1:{free_port()}/", f"https://127.0.0.1:{server.port}/")
        ways = await finder.ways(endpoints_of([entry(url, url[-6:-1]) for url in urls]))
        await sender.close()

    assert [way.kind for way in ways] == [OutcomeKind.REFUSED, OutcomeKind.TIMEOUT_CONNECT]
