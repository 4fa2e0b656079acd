"""Certificates for tests: an authority, and certificates of it for servers and clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key as PEM."""

    certificate: str
    key: str


class Authority:
    """A certificate authority whose files live in one folder."""

    def __init__(self, folder: Path, name: str = "Test CA", *, days: int = 1) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _issue(name, self.key, None, days=days, ca=True)
        self.pem = _pem(self.certificate)
        self.file = str(folder / f"{name}.pem")
        Path(self.file).write_text(self.pem)

    def pair(self, name: str, *, days: int = 1, signed: bool = True, alternative: bool = True) -> Pair:
        """Return a new certificate for *name*, a host name or an address; it ends in *days*.

        Without *alternative* the name is the subject's common name only, as it was in old certificates.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _issue(name, key, self if signed else None, days=days, san=alternative)
        return Pair(_pem(certificate), _private(key))

    def server(
        self,
        host: str,
        *,
        days: int = 1,
        signed: bool = True,
        clients: bool = False,
        alternative: bool = True,
    ) -> ssl.SSLContext:
        """Return a server's context for *host*; with *clients* it wants a certificate of this authority."""
        made = self.pair(host, days=days, signed=signed, alternative=alternative)
        file = self.folder / f"{host.replace(':', '_')}-{days}-{signed}-{alternative}.pem"
        file.write_text(made.key + made.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.pem)
        return context


def _issue(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    by: Authority | None,
    *,
    days: int,
    ca: bool = False,
    san: bool = True,
) -> x509.Certificate:
    """Return a certificate for *name*, signed by the authority or by itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if san:
        builder = builder.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
    return builder.sign(by.key if by else key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
