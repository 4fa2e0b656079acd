"""The real sender and TLS: certificates made here, servers on loopback, both event loops."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from consumer.core.egress import parse_rule
from consumer.core.errors import ConfigError
from consumer.core.model import Kind, SignedRequest
from consumer.edges.http import SenderOptions, WebhookSender
from tests.contracts.loopback import BuildSender
from tests.raw_server import Call, RawServer, eventually, ok, open_files, says

pytestmark = pytest.mark.timeout(30)

HOST = "hook.example"
LOOPBACK = parse_rule(["127.0.0.0/8"])


@dataclass(frozen=True)
class Authority:
    """A certificate authority of one test run."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> str:
        """The PEM file to trust."""
        return str(self.folder / "ca.pem")

    def server(self, host: str = HOST, *, days: int = 1, signed: bool = True) -> ssl.SSLContext:
        """Return a server context for *host*; its certificate ends in *days*."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = issue(
            host, key, self if signed else None, ends=datetime.now(UTC) + timedelta(days=days)
        )
        pem = self.folder / f"{host}-{days}-{signed}.pem"
        pem.write_bytes(private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def issue(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: Authority | None,
    *,
    ends: datetime,
    ca: bool = False,
) -> x509.Certificate:
    """Return a certificate for *name*, signed by the authority or by itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = authority.certificate.subject if authority else subject
    signer = authority.key if authority else key
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=30))
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority whose file the sender trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = issue("Test CA", key, None, ends=datetime.now(UTC) + timedelta(days=1), ca=True)
    built = Authority(tmp_path_factory.mktemp("tls"), key, certificate)
    Path(built.file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return built


async def loopback(host: str, port: int) -> Sequence[str]:
    """Every name is here."""
    return ["127.0.0.1"]


@pytest_asyncio.fixture
async def sender(authority: Authority, build: BuildSender) -> AsyncIterator[WebhookSender]:
    """A sender that trusts the authority and finds every name on loopback."""
    options = SenderOptions(egress=LOOPBACK, ca_file=authority.file, connect_timeout_s=1)
    built = build(options, loopback)
    yield built
    await built.close()


def to(server: RawServer, *, scheme: str = "https") -> SignedRequest:
    """Return a request to the server by its name."""
    url = f"{scheme}://{HOST}:{server.port}/hook"
    return SignedRequest(url=url, headers=[("webhook-id", "msg_1")], body=b"{}", timeout_s=5)


async def test_a_good_certificate_is_accepted_and_the_connection_kept(
    sender: WebhookSender, authority: Authority
) -> None:
    """FAULTS 44: name, dates and chain are right; ten requests share one handshake."""
    async with RawServer(says(ok(body=b"fine")), tls=authority.server()) as server:
        outcomes = [await sender.send(to(server)) for _ in range(10)]

        assert [outcome.kind for outcome in outcomes] == [Kind.OK] * 10
        assert server.connections == 1


@pytest.mark.parametrize("fault", ["self-signed", "wrong host", "expired"])
async def test_a_bad_certificate_is_a_tls_failure(
    sender: WebhookSender, authority: Authority, fault: str
) -> None:
    """FAULTS 44: the request is not sent, and never over less than TLS."""
    contexts = {
        "self-signed": authority.server(signed=False),
        "wrong host": authority.server("other.example"),
        "expired": authority.server(days=-1),
    }
    async with RawServer(says(ok()), tls=contexts[fault]) as server:
        outcome = await sender.send(to(server))

        assert (outcome.kind, outcome.status) == (Kind.TLS, None)
        assert "certificate" in outcome.detail.lower()
        assert server.requests == []


async def test_an_authority_that_we_do_not_trust_is_a_tls_failure(
    authority: Authority, build: BuildSender
) -> None:
    """FAULTS 44: without the CA file the same server is refused."""
    sender = build(SenderOptions(egress=LOOPBACK), loopback)
    async with RawServer(says(ok()), tls=authority.server()) as server:
        assert (await sender.send(to(server))).kind is Kind.TLS
    await sender.close()


async def test_old_tls_is_refused(sender: WebhookSender, authority: Authority) -> None:
    """FAULTS 44: a server that speaks at most TLS 1.1 is a failure, not a downgrade."""
    context = authority.server()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with RawServer(says(ok()), tls=context) as server:
        outcome = await sender.send(to(server))

        assert outcome.kind is Kind.TLS
        assert server.requests == []


async def test_plain_http_where_tls_was_asked_for_is_a_tls_failure(sender: WebhookSender) -> None:
    """FAULTS 44: the request is never sent in clear."""

    async def talk(call: Call) -> None:
        await call.reader.read(1)
        await call.say(b"HTTP/1.1 400 This is not TLS\r\n\r\n")

    async with RawServer(talk) as server:
        outcome = await sender.send(to(server))

        assert outcome.kind is Kind.TLS
        assert server.requests == []


async def test_a_handshake_that_stalls_ends_at_the_connect_bound(sender: WebhookSender) -> None:
    """FAULTS 44: the socket is given back at once, not after the loop's own handshake timeout."""
    async with RawServer(lambda call: call.gone()) as server:
        files = open_files()
        outcome = await sender.send(to(server))
        await eventually(lambda: server.open == 0 and open_files() <= files)

    assert outcome.kind is Kind.TIMEOUT_CONNECT
    assert outcome.duration_s < 3


async def test_a_reset_in_the_handshake_is_an_outcome(sender: WebhookSender) -> None:
    """FAULTS 43, 44: the server hangs up on the hello."""

    async def talk(call: Call) -> None:
        await call.reader.read(1)

    async with RawServer(talk) as server:
        assert (await sender.send(to(server))).kind is Kind.TLS


async def test_closing_with_idle_tls_connections_is_quick(authority: Authority, build: BuildSender) -> None:
    """FAULTS 58: a close waits for no server's goodbye, and leaves nothing open."""
    sender = build(SenderOptions(egress=LOOPBACK, ca_file=authority.file), loopback)
    async with RawServer(says(ok()), tls=authority.server()) as server:
        await asyncio.gather(*(sender.send(to(server)) for _ in range(5)))
        await asyncio.wait_for(sender.close(), 2)
        await eventually(lambda: server.open == 0)


def test_a_ca_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, build: BuildSender) -> None:
    """S2-1: the error names the setting and the file."""
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")
    for path in (bad, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=r"ca_file.*\.pem"):
            build(SenderOptions(ca_file=str(path)))
